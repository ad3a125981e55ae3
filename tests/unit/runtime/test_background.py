"""Work in the background, one at a time; and the side thread's jobs, of which none holds up another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, StreamError
from airflow_stream_provider.runtime import background
from airflow_stream_provider.runtime.background import Background, SideThread
from devstack.drivers import wait_for
from tests.support.fake_driver import FakeDriver, FakeWork
from tests.support.story import OLD, RUNNING


def made_background(did: list[str], works: list[FakeWork]) -> Background:
    """One whose work is done when a test says so."""

    def spawn(work: Callable[[], None]) -> FakeWork:
        works.append(FakeWork(work))
        return works[-1]

    return Background(spawn, lambda reason, error: did.append(f"fail: {reason}"), lambda: did.append("halt"))


@pytest.mark.parametrize("rehearses", [False, True])
def test_it_is_busy_until_the_work_is_over(rehearses: bool) -> None:
    works: list[FakeWork] = []
    made = made_background([], works)
    assert (made.is_busy, made.starts_or_stops) == (False, False)
    made.begin(lambda: None, rehearses=rehearses)
    assert (made.is_busy, made.starts_or_stops) == (True, not rehearses)
    works[0].do()
    assert (made.is_busy, made.starts_or_stops) == (False, False)
    assert made.work is works[0]


@pytest.mark.parametrize(
    ("error", "did"),
    [
        (StreamError("It was refused."), "fail: It was refused."),
        (ValueError("x"), "fail: The runtime itself failed"),
        (ControlLogReplaced("It is another log."), "halt"),
    ],
)
def test_work_that_fails_ends_the_driver(error: Exception, did: str) -> None:
    def fails() -> None:
        raise error

    done: list[str] = []
    works: list[FakeWork] = []
    made_background(done, works).begin(fails)
    works[0].do()
    assert done == [did]


def test_one_work_at_a_time() -> None:
    driver = FakeDriver(OLD, RUNNING)
    driver.turn(3)
    assert (len(driver.works), driver.did) == (1, ["hold"])
    assert driver.agent.in_hurry
    driver.work()
    driver.turn()
    assert not driver.agent.in_hurry


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> Iterator[SideThread]:
    monkeypatch.setattr(background, "TICK_SECONDS", 0.01)
    made = SideThread()
    yield made
    made._jobs.clear()  # its thread has nothing more to do


def test_a_job_that_fails_or_hangs_holds_up_no_other(
    side: SideThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "LONG_SECONDS", 0.1)
    done: list[str] = []
    hangs = threading.Event()

    def fail() -> None:
        done.append("failing")
        raise ZeroDivisionError("the JVM is gone")

    def hang() -> None:
        done.append("hanging")
        hangs.wait(120)

    side.every(0.01, "failing", fail)
    side.every(0.01, "hanging", hang)
    side.every(0.01, "brisk", lambda: done.append("brisk"))
    side.start()
    wait_for("three of each", lambda: min(map(done.count, ("failing", "brisk"))) >= 3)
    wait_for("a word on the slow one", lambda: "The job hanging has taken more than" in caplog.text)
    assert done.count("hanging") == 1
    assert caplog.text.count("The job hanging has taken") == 1
    assert "The job failing failed" in caplog.text
    hangs.set()
    wait_for("the slow one", lambda: done.count("hanging") >= 2)


def test_the_jobs_go_on_when_a_thread_can_be_begun_again(
    side: SideThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin, refused = side._calls.submit, threading.Event()

    def submit(work: Any) -> Any:
        if refused.is_set():
            return begin(work)
        refused.set()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(side._calls, "submit", submit)
    done: list[str] = []
    side.every(0.01, "owner's mark", lambda: done.append("mark"))
    side.start()
    wait_for("three turns", lambda: len(done) >= 3)
    assert "The job owner's mark is done later: can't start new thread" in caplog.text


def test_a_job_says_when_it_is_due_again(side: SideThread) -> None:
    done: list[str] = []

    def once() -> float:
        done.append("once")
        return 3600.0

    side.every(0.0, "once", once)
    side.every(0.0, "often", lambda: done.append("often"))
    side.start()
    wait_for("three turns", lambda: done.count("often") >= 3)
    assert done.count("once") == 1


def test_a_holder_halts_whose_queries_get_no_thread_to_start_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: it held the stream, beat, and ran nothing for ever."""
    driver = FakeDriver(OLD, RUNNING)

    def spawn(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(driver.agent._acts.background, "_spawn", spawn)
    driver.turn()
    assert driver.did == ["hold", "halt"]
