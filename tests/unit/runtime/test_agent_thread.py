"""The agent's turns: in a thread of their own, and at once when something has happened."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_stream_provider.runtime import agent as agent_thread
from airflow_stream_provider.runtime.agent import AgentThread
from devstack.drivers import wait_for


class Agent:
    """Counts its turns, and never ends them by itself."""

    in_hurry = False

    def __init__(self) -> None:
        self.turns = self.terminated = 0
        self.threads: set[str] = set()
        self.over = threading.Event()

    def turn(self) -> None:
        if self.over.is_set():
            raise SystemExit  # ends the thread silently
        self.threads.add(threading.current_thread().name)
        self.turns += 1

    def terminate(self) -> None:
        self.terminated += 1


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(agent_thread, "TICK_SECONDS", 3600.0)
    return Agent()


def end(thread: AgentThread, agent: Any) -> None:
    agent.over.set()
    thread.terminate(agent)


def test_a_turn_is_taken_at_once_and_then_when_work_is_over(agent: Any) -> None:
    thread = AgentThread()
    thread.start(agent)
    wait_for("its turns", lambda: agent.turns == 1)
    work = thread.spawn(lambda: None)
    wait_for("its turns", lambda: agent.turns == 2)
    assert (work.daemon, work.name, agent.threads) == (True, "airflow-stream-work", {"airflow-stream-agent"})
    end(thread, agent)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_fails_is_over_too(agent: Any) -> None:
    thread = AgentThread()
    thread.start(agent)
    wait_for("its turns", lambda: agent.turns == 1)

    def fail() -> None:
        raise ValueError("it broke")

    thread.spawn(fail)
    wait_for("its turns", lambda: agent.turns == 2)
    end(thread, agent)


def test_sigterm_is_told_and_looked_at_at_once(agent: Any) -> None:
    thread = AgentThread()
    thread.start(agent)
    wait_for("its turns", lambda: agent.turns == 1)
    thread.terminate(agent)
    wait_for("its turns", lambda: agent.turns == 2)
    assert agent.terminated == 1
    end(thread, agent)


def test_sigterm_before_the_start_is_told_too(agent: Any) -> None:
    thread = AgentThread()
    thread.terminate(agent)
    assert agent.terminated == 1
    thread.start(agent)
    wait_for("its turns", lambda: agent.turns == 2)
    end(thread, agent)


def test_in_a_hurry_it_does_not_wait_for_the_next_second(agent: Any) -> None:
    agent.in_hurry = True
    thread = AgentThread()
    thread.start(agent)
    wait_for("its turns", lambda: agent.turns >= 3)
    end(thread, agent)
