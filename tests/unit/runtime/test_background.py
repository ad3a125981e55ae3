"""Work in the background: one at a time, and what fails there, or cannot begin there, ends the driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, StreamError
from airflow_stream_provider.runtime.ends import Background
from tests.support.fake_driver import FakeDriver, FakeWork
from tests.support.story import OLD, RUNNING


def background(did: list[str], works: list[FakeWork]) -> Background:
    """One whose work is done when a test says so."""

    def spawn(work: Callable[[], None]) -> FakeWork:
        works.append(FakeWork(work))
        return works[-1]

    return Background(spawn, lambda reason, error: did.append(f"fail: {reason}"), lambda: did.append("halt"))


@pytest.mark.parametrize("rehearses", [False, True])
def test_it_is_busy_until_the_work_is_over(rehearses: bool) -> None:
    works: list[FakeWork] = []
    made = background([], works)
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
    background(done, works).begin(fails)
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


def test_a_holder_halts_whose_queries_get_no_thread_to_start_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: it held the stream, beat, and ran nothing for ever."""
    driver = FakeDriver(OLD, RUNNING)

    def spawn(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(driver.agent._acts.background, "_spawn", spawn)
    driver.turn()
    assert driver.did == ["hold", "halt"]
