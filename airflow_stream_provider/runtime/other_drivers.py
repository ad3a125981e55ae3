"""Find the other drivers of the stream in the control log."""

from __future__ import annotations

import time

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.ids import deployment_of

# A driver beats about once a second.
BEATS_SECONDS = 3.0
# An orphan's Python ends within two seconds; a counter that grows after ten belongs to a live driver.
ORPHAN_SECONDS = 10.0


class OtherDrivers:
    """The other drivers of one incarnation's stream; reads the log for itself, in any thread, on from where it is."""

    def __init__(self, log: ControlLog, incarnation: str) -> None:
        self._log = log.another()
        self._me = incarnation

    def twin_lives(self) -> bool:
        """Whether another driver of this deployment is alive; waits up to 13 s.

        There is one when the submission was repeated, or when an old driver is still ending.
        """
        mine = deployment_of(self._me)
        names = [name for name in self._log.store.heartbeats() if deployment_of(name) == mine]
        if not names:
            return False
        time.sleep(ORPHAN_SECONDS)
        return any(self._beats(names))

    def may_rehearse(self, incarnation: str) -> bool:
        """Whether another driver may be rehearsing now: it is not announced, its deployment goes on, and it beats.

        Waits up to 3 s.
        """
        state = self._log.refresh()
        deployment = state.deployments.get(deployment_of(incarnation))
        if deployment is None or deployment.ended or incarnation in state.incarnations:
            return False
        return any(self._beats([incarnation]))

    def _beats(self, names: list[str]) -> list[bool]:
        """Whether each of these drivers writes heartbeats."""
        before = [self._counter(name) for name in names]
        time.sleep(BEATS_SECONDS)
        return [after > count for count, after in zip(before, (self._counter(name) for name in names))]

    def _counter(self, name: str) -> int:
        beat = self._log.heartbeat(name)
        return beat.counter if beat else 0  # damaged: its writer is dead, or writes a whole one next
