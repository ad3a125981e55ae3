"""Bringing a stream back as a table: a state of the log on the left, the watch's next step on the right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.begun import ADOPT_SECONDS
from airflow_stream_provider.planning.conditions import RequestOver, StandbyUp
from airflow_stream_provider.planning.recover import drivers_of_interest
from airflow_stream_provider.planning.recovery_decision import COME_UP_SECONDS
from airflow_stream_provider.planning.signs_of_life import Dead, SignsOfLife
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, Submit, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.revivals import AGAIN, DOWN, ME, again, take
from tests.support.snapshots import appended, snapshot
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    READY,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    acquired,
    declared,
    declared_again,
    failed,
    fenced,
    fencing,
    finished,
    hash_of,
    ready,
    released,
    requested,
    retired,
    standby,
    submitted,
)

TERMINATED = [*RUNNING, released(OLD, None, None)]


def known(**alive: bool) -> WaitOutcome:
    names = {"old": OLD, "new": NEW}
    return WaitOutcome(
        Ended.REACHED, SignsOfLife.SUBJECT, evidence={names[name]: lives for name, lives in alive.items()}
    )


def test_a_driver_that_has_beaten_since_the_last_look_is_well() -> None:
    step = take(*RUNNING, before={OLD: 5}, counters={OLD: 9})
    assert step == Done({"stream": "orders", "holder": OLD_DEPLOYMENT, "phase": "running"})


def test_a_driver_that_has_beaten_since_it_was_found_silent_is_well() -> None:
    silent = replace(known(old=False), counters={OLD: 5})
    assert isinstance(take(*RUNNING, outcome=silent, counters={OLD: 5}), Append)
    assert isinstance(take(*RUNNING, outcome=silent, counters={OLD: 6}), Done)
    assert isinstance(take(*RUNNING, outcome=silent, before={OLD: 4}, counters={OLD: 6}), Done)


@pytest.mark.parametrize("before", [{}, {OLD: 5}])
def test_one_that_has_not_is_watched(before: dict[str, int]) -> None:
    assert take(*RUNNING, before=before, counters={OLD: 5}) == Wait(SignsOfLife({OLD: 5}, 30.0))
    assert isinstance(take(*RUNNING, outcome=known(old=True), counters={OLD: 6}), Done)


def test_a_dead_holder_is_fenced_and_only_then_another_started() -> None:
    step = take(*RUNNING, fencing(OLD), outcome=known(old=False))
    assert step == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    dead = WaitOutcome(Ended.DEAD, OLD, "killed and confirmed gone", {"driver": "killed"})
    assert appended(take(*RUNNING, outcome=dead), "incarnation", "evidence") == ("fenced", OLD, {"driver": "killed"})


def test_what_stopped_inside_a_batch_is_fenced() -> None:
    assert take(*INTERRUPTED, fencing(OLD)) == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))


def test_a_warm_driver_of_a_proven_release_is_appointed() -> None:
    assert take(*TERMINATED, counters={OLD: 3}) == Wait(SignsOfLife({OLD: 3}, 30.0))
    step = take(*TERMINATED, outcome=known(old=True))
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"], step.fields["expires"]) == ("requested", OLD, 110.0 + 60.0 + 30.0)
    assert take(*TERMINATED, outcome=known(old=True)) == step, "the same however often it is tried"


def test_all_warm_drivers_are_watched_at_once() -> None:
    """Two waits that told of a part each followed each other for as long as the task may last."""
    both, beats = [*HANDED_OVER, released(NEW, None, None)], {OLD: 3, NEW: 7}
    all_of_them = Wait(SignsOfLife(beats, 30.0))
    assert take(*both, before={OLD: 1}, counters=beats) == all_of_them
    assert take(*both, outcome=known(old=False), counters=beats) == all_of_them


def test_a_release_that_never_held_is_not() -> None:
    records = [*RUNNING, *READY[len(RUNNING) : -2], fenced(OLD), failed(None, OLD_DEPLOYMENT)]
    step = take(*records, outcome=known(new=True))
    assert isinstance(step, Append)
    assert (step.kind, step.fields["release"]["hash"]) == ("declared", hash_of(OLD_DEPLOYMENT))


def test_the_last_release_is_started_again() -> None:
    step = take(*DOWN)
    assert isinstance(step, Append)
    assert step.kind == "declared"
    assert (step.fields["deployment"], step.fields["release"]["hash"]) == (AGAIN, hash_of(OLD_DEPLOYMENT))
    assert take(*DOWN, again()) == Submit(AGAIN)
    assert take(*DOWN, again(), submitted(AGAIN)) == Wait(StandbyUp(AGAIN))
    up = f"{AGAIN}.0000000a"
    step = take(*DOWN, again(), submitted(AGAIN), standby(up), counters={up: 1})
    assert step == Wait(SignsOfLife({up: 1}, 30.0))
    alive = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={up: True})
    assert appended(take(*DOWN, again(), submitted(AGAIN), standby(up), outcome=alive), "to") == ("requested", up)


def test_a_fenced_deployment_is_given_up_once_the_cluster_has_nothing_of_it() -> None:
    records = [*RUNNING, fenced(OLD)]
    assert drivers_of_interest(snapshot(*records)) == (OLD_DEPLOYMENT,)
    assert take(*records) == Wait(StandbyUp(OLD_DEPLOYMENT)), "a supervised driver may be on its way"
    gone = {OLD_DEPLOYMENT: DriverFacts("driver-1", DriverState.KILLED, gone=True)}
    assert appended(take(*records, drivers=gone), "deployment") == ("failed", OLD_DEPLOYMENT)


def test_an_older_release_does_not_follow_while_the_cluster_does_not_answer() -> None:
    """Found by a review: the dead holder's own deployment, declared long ago, counted as late to come up."""
    records = [*HANDED_OVER, replace(fenced(NEW), at=5000.0)]
    unknown = {NEW_DEPLOYMENT: DriverFacts("driver-1", DriverState.UNKNOWN)}
    step = take(*records, outcome=known(old=True), drivers=unknown, at=5010.0)
    assert step == Wait(StandbyUp(NEW_DEPLOYMENT))
    step = take(*records, outcome=known(old=True), drivers=unknown, at=5001.0 + COME_UP_SECONDS)
    assert appended(step, "to") == ("requested", OLD), "it does not come up again"


def test_the_deployment_of_a_watch_that_died_is_gone_on_with() -> None:
    other = "orders-1-ffff"
    assert take(*DOWN, again(deployment=other, run="earlier")) == Submit(other)


def test_that_of_an_upgrade_is_left_to_it_for_a_minute() -> None:
    theirs = declared_again("orders-1-eeee", OLD_DEPLOYMENT, again=None, by="airflow:orders__upgrade/x/submit")
    assert isinstance(take(*DOWN, theirs), Skip)
    assert take(*DOWN, theirs, at=100.0 + ADOPT_SECONDS + 1) == Submit("orders-1-eeee")


def test_the_release_to_run_is_waited_for_while_another_one_hangs() -> None:
    """Found by a review: what the watch had declared was submitted only when another one stood by or ended."""
    theirs = declared_again("orders-1-eeee", OLD_DEPLOYMENT, again=None, by="airflow:orders__upgrade/x/submit")
    hanging = [theirs, submitted("orders-1-eeee")]
    down = [*HANDED_OVER, retired(OLD_DEPLOYMENT), *hanging, fenced(NEW), failed(None, NEW_DEPLOYMENT)]
    drivers = {"orders-1-eeee": DriverFacts("driver-1", DriverState.QUEUED)}
    mine = declared_again(AGAIN, NEW_DEPLOYMENT, version="2", by=ME.by)
    assert take(*down, mine, drivers=drivers) == Submit(AGAIN)
    assert take(*down, mine, submitted(AGAIN), drivers=drivers) == Wait(StandbyUp(AGAIN))


def test_no_second_driver_of_a_release_is_submitted_that_is_coming_up() -> None:
    """Found by a chaos run: a roll-back and the watch had declared one release, and the watch's stayed for ever."""
    theirs = "orders-1-eeee"
    later = declared_again(theirs, OLD_DEPLOYMENT, by="airflow:orders__upgrade/x/roll_back")
    both = [*DOWN, again(), later, submitted(theirs)]
    assert take(*both) == Wait(StandbyUp(theirs))
    assert take(*both, failed(None, theirs)) == Submit(AGAIN)


def test_a_second_driver_is_submitted_when_the_one_that_is_coming_up_is_late() -> None:
    """Found by a review: while a driver hung, what the watch had declared was never submitted."""
    theirs = "orders-1-eeee"
    later = declared_again(theirs, OLD_DEPLOYMENT, by="airflow:orders__upgrade/x/roll_back")
    both = [*DOWN, again(), later, submitted(theirs)]
    hangs = {theirs: DriverFacts("driver-1", DriverState.RUNNING)}
    assert take(*both, drivers=hangs, at=100.0 + COME_UP_SECONDS) == Wait(StandbyUp(theirs))
    assert take(*both, drivers=hangs, at=101.0 + COME_UP_SECONDS) == Submit(AGAIN)


@pytest.mark.parametrize("up", [[], [submitted(AGAIN)], [submitted(AGAIN), standby(f"{AGAIN}.0000000a")]])
def test_what_the_watch_has_declared_is_retired_when_another_one_holds(up: list[Record]) -> None:
    theirs = f"{NEW_DEPLOYMENT}.0000000b"
    taken = [submitted(NEW_DEPLOYMENT), standby(theirs), requested("r", theirs), ready("r", theirs)]
    story = [*DOWN, again(), *up, declared(NEW_DEPLOYMENT), *taken, acquired(theirs, "r", 2)]
    step = take(*story, before={theirs: 1}, counters={theirs: 2})
    assert step == Append("retired", {"deployment": AGAIN, "reason": f"It is not needed: {NEW_DEPLOYMENT} holds."})
    assert isinstance(take(*story, retired(AGAIN), before={theirs: 1}, counters={theirs: 2}), Done)


def test_what_a_roll_back_has_declared_is_retired_when_something_else_came_to_hold() -> None:
    """Found by a review: the watch's driver of the same release was appointed first, and the roll-back's stayed."""
    mine, theirs, newer = f"{AGAIN}.0000000a", "orders-1-eeee", "orders-2-ffff.0000000d"
    rolling_back = declared_again(theirs, OLD_DEPLOYMENT, instead_of=NEW_DEPLOYMENT)
    bad = [*HANDED_OVER, retired(OLD_DEPLOYMENT), failed(NEW, committed=False)]
    both = [*bad, again(), rolling_back, submitted(AGAIN), submitted(theirs), standby(mine)]
    story = [*both, requested("r", mine), ready("r", mine), acquired(mine, "r", 3)]
    for more in ([], [standby(f"{theirs}.0000000b")]):
        step = take(*story, *more, before={mine: 1}, counters={mine: 2})
        assert step == Append("retired", {"deployment": theirs, "reason": f"It is not needed: {AGAIN} holds."})
    # While what it is to replace holds, also by another name, it stays.
    assert isinstance(take(*HANDED_OVER, rolling_back, before={NEW: 1}, counters={NEW: 2}), Done)
    as_bad = declared_again(deployment_of(newer), NEW_DEPLOYMENT, version="2")
    held = [submitted(deployment_of(newer)), standby(newer), requested("s", newer), ready("s", newer)]
    story = [*bad, as_bad, rolling_back, *held, acquired(newer, "s", 3)]
    assert isinstance(take(*story, before={newer: 1}, counters={newer: 2}), Done)


def test_what_the_watch_has_brought_up_and_what_is_not_its_own_is_kept() -> None:
    mine, theirs = f"{AGAIN}.0000000a", f"{NEW_DEPLOYMENT}.0000000b"
    held = [submitted(AGAIN), standby(mine), requested("r", mine), ready("r", mine), acquired(mine, "r", 2)]
    after = [declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), standby(theirs)]
    taken = [requested("s", theirs), ready("s", theirs), released(mine, "s", theirs), acquired(theirs, "s", 3)]
    story = [*DOWN, again(), *held, *after]
    assert isinstance(take(*story, before={mine: 1}, counters={mine: 2}), Done)
    assert isinstance(take(*story, *taken, before={theirs: 1}, counters={theirs: 2}), Done)


def test_a_driver_that_never_came_up_is_given_up() -> None:
    lost = WaitOutcome(Ended.GONE, AGAIN, "its driver is gone (failed)")
    assert appended(take(*DOWN, again(), submitted(AGAIN), outcome=lost), "deployment") == ("failed", AGAIN)
    gone = {AGAIN: DriverFacts("driver-1", DriverState.FAILED, gone=True)}
    assert appended(take(*DOWN, again(), submitted(AGAIN), drivers=gone), "deployment") == ("failed", AGAIN)


def test_an_open_request_is_followed_and_ended_when_nobody_can_act_on_it() -> None:
    step = take(*REQUESTED)
    assert step == Wait(RequestOver("up", 200.0, (OLD, NEW), 30.0))
    silent = WaitOutcome(Ended.SILENT, NEW, "no heartbeat for 61 s")
    assert take(*READY, fencing(NEW), outcome=silent) == Kill(deployment_of(NEW), Dead(NEW, 30.0))
    assert appended(take(*REQUESTED, at=201.0), "request") == ("aborted", "up")


@pytest.mark.parametrize("records", [[], STARTED, STOPPED, [*RUNNING, finished(OLD)]])
def test_what_nobody_wants_to_run_is_left_alone(records: list[Record]) -> None:
    assert isinstance(take(*records), Skip)


def test_the_cluster_is_asked_about_what_is_on_its_way_while_nobody_holds() -> None:
    assert drivers_of_interest(snapshot(*HANDED_OVER)) == ()
    assert drivers_of_interest(snapshot(*DOWN, again())) == ()
    assert drivers_of_interest(snapshot(*DOWN, again(), submitted(AGAIN))) == (AGAIN,)
