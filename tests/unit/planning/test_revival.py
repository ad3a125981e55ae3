"""When a look triggers a run that brings a stream back: not where nobody wants that, or somebody is at it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.begun import ADOPT_SECONDS
from airflow_stream_provider.planning.recover import due_beside_another, revival_is_due
from tests.support.snapshots import snapshot
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    declared_again,
    failed,
    fenced,
    finished,
    released,
    retired,
)

LOST = {OLD: False, NEW: False}
DOWN = [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT)]


def due(records: list[Record], alive: dict[str, bool | None], *, at: float = 150.0, answers: bool = True) -> bool:
    return revival_is_due(snapshot(*records, at=at), alive, cluster_answers=answers)


@pytest.mark.parametrize("records", [[], STARTED, STOPPED, [*RUNNING, finished(OLD)]])
def test_one_that_nobody_wants_to_run_is_left_alone(records: list[Record]) -> None:
    for alive in ({}, LOST, {OLD: True, NEW: True}):
        assert not due(records, dict(alive))


@pytest.mark.parametrize("records", [RUNNING, PREPARED, REQUESTED, READY, RELEASED, HANDED_OVER, STOPPING])
def test_one_that_runs_or_is_handed_over_in_good_order_is_left_alone(records: list[Record]) -> None:
    assert not due(records, {OLD: True, NEW: True})
    assert not due(records, {})


@pytest.mark.parametrize("records", [RUNNING, PREPARED, REQUESTED, READY])
def test_a_holder_that_seems_lost_is_looked_after_if_its_cluster_answers(records: list[Record]) -> None:
    assert due(records, {**LOST, NEW: True})
    assert not due(records, {**LOST, NEW: True}, answers=False)


def test_one_that_stopped_inside_a_batch_is_fenced() -> None:
    assert due(INTERRUPTED, {OLD: True, NEW: True})
    assert not due(INTERRUPTED, {OLD: True, NEW: True}, answers=False)


def test_a_request_that_has_expired_is_ended_without_the_cluster() -> None:
    assert due(REQUESTED, {OLD: True, NEW: True}, at=1000.0, answers=False)


def test_a_stream_that_is_down_is_brought_back() -> None:
    assert due(DOWN, {})
    assert not due(DOWN, {}, answers=False)


def test_a_living_standby_is_appointed_without_the_cluster() -> None:
    down = [*PREPARED, released(OLD, None, None)]
    assert due(down, {OLD: True, NEW: False}, answers=False)
    assert not due(down, {OLD: False, NEW: True}, answers=False)
    # Of a standby nothing is known: somebody has to wait for its sign of life.
    assert due([*RUNNING, released(OLD, None, None)], {}, answers=False)


def again(at: float, name: str = "orders-1-ffff") -> Record:
    return declared_again(name, OLD_DEPLOYMENT, at=at)


def test_no_second_run_waits_for_the_driver_of_the_last_holder_to_come_up_again() -> None:
    look = replace(snapshot(*HANDED_OVER, fenced(NEW), at=1000.0), records=())
    assert revival_is_due(look, {OLD: True}, cluster_answers=False)
    assert not due_beside_another(look, {OLD: True})


def test_what_comes_up_is_left_to_who_declared_it_for_a_minute() -> None:
    coming = [*DOWN, again(100.0)]
    assert not due(coming, {}, at=101.0)
    assert due(coming, {}, at=101.0 + ADOPT_SECONDS)
    assert due(coming, {"orders-1-ffff": False}, at=101.0)  # the cluster says that it is gone


def test_a_machine_whose_clock_is_ahead_blocks_nobody() -> None:
    tomorrow = again(86500.0)
    assert due([*DOWN, tomorrow], {})
    assert due([*DOWN, tomorrow, failed(None, "orders-1-ffff")], {})


def test_a_release_that_keeps_failing_waits_for_its_next_try() -> None:
    tried = [*DOWN, again(100.0), failed(None, "orders-1-ffff")]
    assert not due(tried, {}, at=159.0)
    assert due(tried, {}, at=161.0)


def test_a_deployment_that_was_retired_is_not_waited_for() -> None:
    assert due([*DOWN, again(100.0), retired("orders-1-ffff")], {}, at=1000.0)


def test_a_living_driver_is_appointed_and_a_request_ended_whatever_another_run_waits_for() -> None:
    def beside(records: list[Record], alive: dict[str, bool | None]) -> bool:
        return due_beside_another(snapshot(*records, at=1000.0), alive)

    # A roll-back: the release of the standby has held before.
    rolled_back = [*HANDED_OVER, failed(NEW)]
    assert beside(rolled_back, {OLD: True}) == due(rolled_back, {OLD: True}, answers=False)
    assert beside(REQUESTED, {OLD: True, NEW: True}), "it has expired"
    # Another run kills it, and waits for that, or waits for it to come up.
    assert not beside(RUNNING, {OLD: False})
    assert not beside(DOWN, {})
    assert not beside(RUNNING, {OLD: True})
