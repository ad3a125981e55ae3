"""What a look knows of drivers, by the counters of their heartbeats rather than by clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.health import alive, doubtful, needed
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.snapshot import Snapshot
from tests.support.snapshots import snapshot
from tests.support.story import (
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    REQUESTED,
    RUNNING,
    declared_again,
    failed,
    fenced,
    released,
    submitted,
)

NOW = 10_000.0


def found(age: float | None, records: list[Record] = RUNNING, counter: int = 9) -> Snapshot:
    beats = {} if age is None else {OLD: Heartbeat(counter=counter, at=NOW - age)}
    return replace(snapshot(*records, at=NOW), heartbeats=beats)


def before(ago: float, counter: int) -> LagSample:
    return LagSample(NOW - 60, counters={OLD: counter}, since={OLD: NOW - ago})


def test_those_are_needed_who_hold_or_are_to_hold() -> None:
    assert needed(found(1.0)) == (OLD,)
    assert needed(found(1.0, PREPARED)) == (OLD,)
    assert needed(found(1.0, REQUESTED)) == (OLD, NEW)
    assert needed(found(1.0, [*PREPARED, released(OLD, None, None)])) == (OLD, NEW)
    assert needed(snapshot(at=NOW)) == ()


@pytest.mark.parametrize(("age", "doubt"), [(1.0, ()), (6.0, (OLD,)), (-3600.0, (OLD,)), (None, (OLD,))])
def test_a_heartbeat_of_the_last_seconds_is_not_doubted(age: float | None, doubt: tuple[str, ...]) -> None:
    assert doubtful(found(age)) == doubt


@pytest.mark.parametrize("age", [3600.0, 29.0, -3600.0])
def test_who_beats_is_alive_whatever_its_clock_says(age: float) -> None:
    gone = {OLD_DEPLOYMENT: DriverState.LOST}
    assert alive(found(age), before(600.0, 9), {OLD: True}, gone) == {OLD: True}


def test_who_has_just_beaten_is_alive() -> None:
    assert alive(found(1.0), None, {}, {}) == {OLD: True}


@pytest.mark.parametrize(
    ("age", "looked", "driver", "lives"),
    [
        (10.0, None, DriverState.RUNNING, None),
        (31.0, None, DriverState.RUNNING, False),  # a lease, by the clocks
        (10.0, None, DriverState.FAILED, False),
        (10.0, None, DriverState.RESERVED, False),  # it was there, and is forgotten
        (-3600.0, before(30.0, 9), DriverState.RUNNING, None),  # its clock is wrong
        (-3600.0, before(60.0, 9), DriverState.RUNNING, False),
        (-3600.0, before(60.0, 8), DriverState.RUNNING, None),
        (None, None, DriverState.RUNNING, False),
    ],
)
def test_who_stands_still_between_two_reads_is_taken_for_lost_when_more_is_known(
    age: float | None, looked: LagSample | None, driver: DriverState, lives: bool | None
) -> None:
    assert alive(found(age), looked, {OLD: False}, {OLD_DEPLOYMENT: driver}) == {OLD: lives}


@pytest.mark.parametrize(
    ("age", "looked", "driver", "lives"),
    [
        (10.0, None, DriverState.FAILED, False),
        (3000.0, before(3000.0, 9), DriverState.RUNNING, False),
        (-3600.0, before(3000.0, 9), DriverState.RUNNING, False),
        (3000.0, None, DriverState.RUNNING, None),  # its clock may be wrong
        (3000.0, before(3000.0, 8), DriverState.RUNNING, None),
    ],
)
def test_a_second_read_that_does_not_answer_is_no_sign_of_life(
    age: float, looked: LagSample | None, driver: DriverState, lives: bool | None
) -> None:
    """Found by a review: a dead driver of a stream that hangs counted as alive, and was never brought back."""
    assert alive(found(age), looked, {}, {OLD_DEPLOYMENT: driver}) == {OLD: lives}


def test_what_comes_up_and_has_ended_on_the_cluster_is_lost() -> None:
    again = declared_again("orders-1-ffff", OLD_DEPLOYMENT)
    down = found(1.0, [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT), again, submitted("orders-1-ffff")])
    for state in (DriverState.FAILED, DriverState.RESERVED):  # what nobody has sent brings a run that does
        assert alive(down, None, {}, {"orders-1-ffff": state}) == {"orders-1-ffff": False}
    assert alive(down, None, {}, {"orders-1-ffff": DriverState.RUNNING}) == {}
