"""The threads in which a driver's agent runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from airflow_stream_provider.runtime.agent import Agent

TICK_SECONDS = 1.0
# While a request is open both drivers read the log this often; it bounds the time from `released` to the new start.
HURRY_SECONDS = 0.05


class AgentThread:
    """One daemon thread takes the agent's turns, another does its background work of the moment."""

    def __init__(self) -> None:
        self._wake = threading.Event()

    def spawn(self, work: Callable[[], None]) -> threading.Thread:
        """Do the work in a daemon thread; the agent takes its next turn as soon as the work is over."""

        def then_wake() -> None:
            try:
                work()
            finally:
                self._wake.set()

        thread = threading.Thread(target=then_wake, name="airflow-stream-work", daemon=True)
        thread.start()
        return thread

    def start(self, agent: Agent) -> None:
        """Take the agent's turns from now on."""
        threading.Thread(target=self._run, args=(agent,), name="airflow-stream-agent", daemon=True).start()
        agent.offsets.start()

    def terminate(self, agent: Agent) -> None:
        """SIGTERM has come: see `Agent.terminate`. Called by the shutdown hook, before or after `start`."""
        agent.terminate()
        self._wake.set()

    def _run(self, agent: Agent) -> None:
        while True:
            agent.turn()
            self._wake.wait(HURRY_SECONDS if agent.in_hurry else TICK_SECONDS)
            self._wake.clear()
