"""The one loop behind every wait; conditions are in test_conditions.py and test_lag_conditions.py."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.planning import waits
from airflow_stream_provider.planning.waits import (
    Ended,
    Looks,
    WaitCondition,
    Waited,
    WaitOutcome,
    condition_from_json,
    wait,
)

log = logging.getLogger("wait")
log.setLevel(logging.INFO)


class NumberCondition(WaitCondition[int, list[int]]):
    def new_memory(self) -> list[int]:
        return []

    def problem(self, look: int) -> str:
        return "Nothing to see." if look < 0 else ""


@dataclass(frozen=True)
class SeenTwice(NumberCondition):
    """The number was seen twice by one observer."""

    number: int
    names: tuple[str, ...] = ()

    WAITS_FOR: ClassVar[str] = "a second {number}"

    def check(self, look: int, memory: list[int]) -> WaitOutcome | None:
        memory.append(look)
        return WaitOutcome(Ended.REACHED) if memory.count(self.number) == 2 else None


@dataclass(frozen=True)
class Seen(NumberCondition):
    """The number was seen."""

    number: int

    def check(self, look: int, memory: list[int]) -> WaitOutcome | None:
        return WaitOutcome(Ended.REACHED) if look == self.number else None


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes in pauses only, ten seconds in each, however busy the machine is."""
    monkeypatch.setattr(waits, "time", Clock)
    monkeypatch.setattr(Clock, "now", 1000.0)


class Clock:
    now = 1000.0

    @classmethod
    def time(cls) -> float:
        return cls.now


class Numbers(Looks[int, list[int]]):
    """Looks one after the other, and the last one for ever; an exception is raised."""

    def __init__(self, *found: int | Exception, takes: float = 0.0) -> None:
        self.found = list(found)
        self.takes = takes
        self.looks = 0

    async def look(self, memory: list[int]) -> int:
        self.looks += 1
        await asyncio.sleep(self.takes)
        one = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(one, Exception):
            raise one
        return one

    async def pause(self) -> None:
        Clock.now += 10.0


def waited(numbers: Numbers, seconds: float = 100.0, **more: Any) -> Waited[int]:
    return asyncio.run(wait(SeenTwice(7), numbers, Clock.now + seconds, subject="orders", log=log, **more))


def test_it_looks_until_the_condition_ends_the_wait() -> None:
    numbers = Numbers(7, 1, 7, 9)
    assert waited(numbers) == Waited(WaitOutcome(Ended.REACHED), 7)
    assert numbers.looks == 3


def test_what_could_not_be_watched_begins_anew() -> None:
    numbers = Numbers(7, ControlUnavailable("The folder is away."), 7, 7)
    assert waited(numbers).outcome.ended is Ended.REACHED
    assert numbers.looks == 4


def test_after_the_deadline_it_looks_once() -> None:
    numbers = Numbers(7)
    assert waited(numbers, -1.0) == Waited(WaitOutcome(Ended.TIMEOUT, reason="Timed out waiting for a second 7."), 7)
    assert numbers.looks == 1


def test_what_is_so_after_the_deadline_is_reached() -> None:
    late = asyncio.run(wait(Seen(7), Numbers(7), Clock.now - 3600.0, subject="orders", log=log))
    assert late.outcome.ended is Ended.REACHED


def test_a_look_that_takes_longer_than_the_deadline_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_stream_provider.planning.waits.LAST_LOOK_SECONDS", 0.1)
    began = time.monotonic()
    assert waited(Numbers(7, takes=60.0), 0.2).outcome.ended is Ended.TIMEOUT
    assert time.monotonic() - began < 30.0


@pytest.mark.parametrize(
    ("found", "last", "why"), [(-1, -1, "Nothing to see."), (StreamError("It is away."), None, "It is away.")]
)
def test_a_timeout_names_what_was_in_the_way_and_each_problem_is_logged_once(
    found: int | Exception, last: int | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = Numbers(found)
    outcome = WaitOutcome(Ended.TIMEOUT, reason=f"Timed out waiting for a second 7. Last problem: {why}")
    assert waited(numbers, 30.0) == Waited(outcome, last)
    assert numbers.looks == 3
    assert caplog.text.count("orders: cannot look now: ") == 1


def test_a_problem_that_is_over_is_not_named() -> None:
    assert waited(Numbers(StreamError("It is away."), 1), 20.0).outcome.reason == "Timed out waiting for a second 7."


def test_only_what_is_fatal_ends_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    missing = SpecError("There is no connection.", next_step="Create it.")
    found = waited(Numbers(1, missing), fatal=SpecError)
    assert found == Waited(WaitOutcome(Ended.CANNOT_LOOK, reason="There is no connection. Create it."), 1)
    assert "orders: the wait is over (cannot_look): There is no connection. Create it." in caplog.text
    assert waited(Numbers(missing), 10.0).outcome.ended is Ended.TIMEOUT


def test_a_timeout_of_the_look_itself_is_an_error() -> None:
    with pytest.raises(TimeoutError, match="of the look"):
        waited(Numbers(TimeoutError("of the look")))


def test_only_conditions_of_the_wanted_kind_are_read() -> None:
    condition = SeenTwice(7, ("a", "b"))
    assert condition_from_json({**condition.to_json(), "names": ["a", "b"]}, [SeenTwice]) == condition
    with pytest.raises(StreamError, match="is not a condition that this version knows"):
        condition_from_json({"condition": "CaughtUp", "moment": 1.0}, [SeenTwice])


@pytest.mark.parametrize("event", [None, {}, {"ended": "perhaps"}, {"ended": "reached"}, "reached", 1])
def test_an_event_that_is_not_ours_is_refused(event: Any) -> None:
    with pytest.raises(StreamError, match="instead of a stream event"):
        WaitOutcome.from_event(event)


def test_an_outcome_survives_the_metadata_database() -> None:
    outcome = WaitOutcome(Ended.DEAD, "x", "why", {"a": 1}, 5.0, {"x": 7})
    assert WaitOutcome.from_event(outcome.to_event()) == outcome


def test_what_cannot_be_encoded_does_not_cross_it() -> None:
    outcome = WaitOutcome(Ended.REACHED, "x", "it cannot read \udc80", {"message": "\0"}, 5.0)
    crossed = WaitOutcome.from_event(outcome.to_event())
    assert (crossed.reason, crossed.evidence) == ("it cannot read \ufffd", {"message": "\ufffd"})


def test_an_outcome_is_outdated_once_the_driver_has_beaten() -> None:
    outcome = WaitOutcome(Ended.SILENT, "x", counters={"x": 7})
    assert outcome.outdated("x", 8)
    assert not outcome.outdated("x", 7)
    assert not outcome.outdated("another", 8)
