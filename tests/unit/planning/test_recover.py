"""Bringing a stream back as a table: a state of the log on the left, the watch's next step on the right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import RequestOver, SignsOfLife, StandbyUp
from airflow_stream_provider.planning.deaths import Dead
from airflow_stream_provider.planning.recover import ADOPT_SECONDS, drivers_of_interest, recover
from airflow_stream_provider.planning.recovery_decision import COME_UP_SECONDS, release_to_run
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Kill, Skip, Submit, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from tests.support.snapshots import snapshot
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
    failed,
    fenced,
    fencing,
    finished,
    hash_of,
    play,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
)

ME = TaskIdentity("orders__revive", "run", "revive")
DOWN = [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT)]
AGAIN = ME.deployment("orders", "1")
TERMINATED = [*RUNNING, released(OLD, None, None)]


def take(
    *records: Record, outcome: WaitOutcome | None = None, before: dict[str, int] | None = None, **fields: Any
) -> Any:
    beats = fields.pop("counters", {})
    found = replace(snapshot(*records, **fields), heartbeats={name: Heartbeat(counter=n) for name, n in beats.items()})
    return recover(found, ME, outcome, before or {})


def known(**alive: bool) -> WaitOutcome:
    names = {"old": OLD, "new": NEW}
    return WaitOutcome(
        Ended.REACHED, SignsOfLife.SUBJECT, evidence={names[name]: lives for name, lives in alive.items()}
    )


def again(at: float = 100.0, deployment: str = AGAIN, run: str = "run") -> Record:
    release = {"version": "1", "hash": hash_of(OLD_DEPLOYMENT)}
    by = f"airflow:orders__revive/{run}/revive"
    fields = {"deployment": deployment, "release": release, "policy": {}, "again": OLD_DEPLOYMENT, "reason": ""}
    return record("declared", by=by, at=at, **fields)


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
    step = take(*RUNNING, outcome=dead)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["incarnation"], step.fields["evidence"]) == ("fenced", OLD, {"driver": "killed"})


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
    step = take(*DOWN, again(), submitted(AGAIN), standby(up), outcome=alive)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", up)


def test_a_fenced_deployment_is_given_up_once_the_cluster_has_nothing_of_it() -> None:
    records = [*RUNNING, fenced(OLD)]
    assert drivers_of_interest(snapshot(*records)) == (OLD_DEPLOYMENT,)
    assert take(*records) == Wait(StandbyUp(OLD_DEPLOYMENT)), "a supervised driver may be on its way"
    gone = {OLD_DEPLOYMENT: DriverFacts("driver-1", DriverState.KILLED, gone=True)}
    step = take(*records, drivers=gone)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["deployment"]) == ("failed", OLD_DEPLOYMENT)


def test_an_older_release_does_not_follow_while_the_cluster_does_not_answer() -> None:
    """Found by a review: the dead holder's own deployment, declared long ago, counted as late to come up."""
    records = [*HANDED_OVER, replace(fenced(NEW), at=5000.0)]
    unknown = {NEW_DEPLOYMENT: DriverFacts("driver-1", DriverState.UNKNOWN)}
    step = take(*records, outcome=known(old=True), drivers=unknown, at=5010.0)
    assert step == Wait(StandbyUp(NEW_DEPLOYMENT))
    step = take(*records, outcome=known(old=True), drivers=unknown, at=5001.0 + COME_UP_SECONDS)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", OLD), "it does not come up again"


def test_the_deployment_of_a_watch_that_died_is_gone_on_with() -> None:
    other = "orders-1-ffff"
    assert take(*DOWN, again(deployment=other, run="earlier")) == Submit(other)


def test_that_of_an_upgrade_is_left_to_it_for_a_minute() -> None:
    theirs = record(
        "declared",
        by="airflow:orders__upgrade/x/submit",
        deployment="orders-1-eeee",
        release={"version": "1", "hash": hash_of(OLD_DEPLOYMENT)},
        policy={},
        reason="",
    )
    assert isinstance(take(*DOWN, theirs), Skip)
    assert take(*DOWN, theirs, at=100.0 + ADOPT_SECONDS + 1) == Submit("orders-1-eeee")


def test_the_release_to_run_is_waited_for_while_another_one_hangs() -> None:
    """Found by a review: what the watch had declared was submitted only when another one stood by or ended."""
    release = {"version": "1", "hash": hash_of(OLD_DEPLOYMENT)}
    fields: dict[str, Any] = {"deployment": "orders-1-eeee", "release": release, "policy": {}, "reason": ""}
    hanging = [record("declared", by="airflow:orders__upgrade/x/submit", **fields), submitted("orders-1-eeee")]
    down = [*HANDED_OVER, retired(OLD_DEPLOYMENT), *hanging, fenced(NEW), failed(None, NEW_DEPLOYMENT)]
    drivers = {"orders-1-eeee": DriverFacts("driver-1", DriverState.QUEUED)}
    newer = {"version": "2", "hash": hash_of(NEW_DEPLOYMENT)}
    fields |= {"deployment": AGAIN, "release": newer, "again": NEW_DEPLOYMENT}
    mine = record("declared", by=ME.by, **fields)
    assert take(*down, mine, drivers=drivers) == Submit(AGAIN)
    assert take(*down, mine, submitted(AGAIN), drivers=drivers) == Wait(StandbyUp(AGAIN))


def test_no_second_driver_of_a_release_is_submitted_that_is_coming_up() -> None:
    """Found by a chaos run: a roll-back and the watch had declared one release, and the watch's stayed for ever."""
    theirs, release = "orders-1-eeee", {"version": "1", "hash": hash_of(OLD_DEPLOYMENT)}
    by = "airflow:orders__upgrade/x/roll_back"
    later = record("declared", by=by, deployment=theirs, release=release, policy={}, again=OLD_DEPLOYMENT, reason="")
    both = [*DOWN, again(), later, submitted(theirs)]
    assert take(*both) == Wait(StandbyUp(theirs))
    assert take(*both, failed(None, theirs)) == Submit(AGAIN)


def test_a_second_driver_is_submitted_when_the_one_that_is_coming_up_is_late() -> None:
    """Found by a review: while a driver hung, what the watch had declared was never submitted."""
    theirs, release = "orders-1-eeee", {"version": "1", "hash": hash_of(OLD_DEPLOYMENT)}
    fields: dict[str, Any] = {"deployment": theirs, "release": release, "policy": {}, "again": OLD_DEPLOYMENT}
    later = record("declared", by="airflow:orders__upgrade/x/roll_back", **fields, reason="")
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
    release = {"version": "1", "hash": hash_of(OLD_DEPLOYMENT)}
    fields: dict[str, Any] = {"deployment": theirs, "release": release, "policy": {}, "again": OLD_DEPLOYMENT}
    rolling_back = record("declared", **fields, instead_of=NEW_DEPLOYMENT, reason="")
    bad = [*HANDED_OVER, retired(OLD_DEPLOYMENT), failed(NEW, committed=False)]
    both = [*bad, again(), rolling_back, submitted(AGAIN), submitted(theirs), standby(mine)]
    story = [*both, requested("r", mine), ready("r", mine), acquired(mine, "r", 3)]
    for more in ([], [standby(f"{theirs}.0000000b")]):
        step = take(*story, *more, before={mine: 1}, counters={mine: 2})
        assert step == Append("retired", {"deployment": theirs, "reason": f"It is not needed: {AGAIN} holds."})
    # While what it is to replace holds, also by another name, it stays.
    assert isinstance(take(*HANDED_OVER, rolling_back, before={NEW: 1}, counters={NEW: 2}), Done)
    release = {"version": "2", "hash": hash_of(NEW_DEPLOYMENT)}
    fields = {"deployment": deployment_of(newer), "release": release, "policy": {}, "again": NEW_DEPLOYMENT}
    as_bad = record("declared", **fields, reason="")
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
    step = take(*DOWN, again(), submitted(AGAIN), outcome=lost)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["deployment"]) == ("failed", AGAIN)
    gone = {AGAIN: DriverFacts("driver-1", DriverState.FAILED, gone=True)}
    step = take(*DOWN, again(), submitted(AGAIN), drivers=gone)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["deployment"]) == ("failed", AGAIN)


def test_one_run_tries_once_and_the_next_ones_ever_more_seldom() -> None:
    tried = [*DOWN, again(), submitted(AGAIN), failed(None, AGAIN)]
    step = take(*tried)
    assert isinstance(step, GiveUp)
    assert "it broke" in str(step.error)
    assert step.log_of == AGAIN, "its driver has not said why"
    other = TaskIdentity("orders__revive", "next", "revive")
    for at, kind in ((110.0, Skip), (161.0, Append)):
        assert isinstance(recover(snapshot(*tried, at=at), other, None, {}), kind)
    third = other.deployment("orders", "1")
    twice = [*tried, again(161.0, third, "next"), failed(None, third)]
    last = TaskIdentity("orders__revive", "last", "revive")
    for at, kind in ((161.0 + 119.0, Skip), (161.0 + 121.0, Append)):
        assert isinstance(recover(snapshot(*twice, at=at), last, None, {}), kind)


def test_the_pauses_grow_to_five_minutes_and_no_further() -> None:
    story = list(DOWN)
    for number in range(20):
        name = TaskIdentity("orders__revive", f"r{number}", "revive").deployment("orders", "1")
        story += [again(200.0 + 300 * number, name, f"r{number}"), failed(None, name)]
    tried = 200.0 + 300 * 19
    for at, kind in ((tried + 299.0, Skip), (tried + 301.0, Append)):
        assert isinstance(take(*story, at=at), kind)


def test_a_machine_whose_clock_is_ahead_blocks_nobody() -> None:
    tomorrow = again(at=100.0 + 86400.0, deployment="orders-1-eeee", run="earlier")
    step = take(*DOWN, tomorrow, failed(None, "orders-1-eeee"))
    assert isinstance(step, Append)
    assert step.kind == "declared"
    theirs = replace(tomorrow, by="airflow:orders__upgrade/x/roll_back")
    assert take(*DOWN, theirs) == Submit("orders-1-eeee"), "nobody submits it"


def held(number: int, at: float) -> list[Record]:
    """A try of the watch that came to hold and was killed."""
    deployment = TaskIdentity("orders__revive", f"r{number}", "revive").deployment("orders", "1")
    name, ask = f"{deployment}.0000000a", f"try {number}"
    up = replace(standby(name), fields={**standby(name).fields, "queries": [{"name": "a"}, {"name": "b"}]})
    began = [again(at, deployment, f"r{number}"), submitted(deployment), up, requested(ask, name), ready(ask, name)]
    return [*began, acquired(name, ask, 2 + number), fenced(name), failed(None, deployment)]


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [(7, 1, Append), (7, 0, Skip), (7, None, Skip), (None, None, Skip)],
    ids=["proven", "idle", "half", "unproven"],
)
def test_only_what_follows_a_holder_that_has_committed_counts_as_a_try(
    a: int | None, b: int | None, kind: type
) -> None:
    """Found by a chaos run: after three killed holders a stream stayed down for five minutes, and nothing was wrong."""
    killed = [*DOWN, *held(0, 200.0), *held(1, 300.0), *held(2, 400.0)]
    last = str(play(killed).last_holder)
    progress = (QueryProgress(name, batch=n, commits=(Commit(1.0),) if n else ()) for name, n in (("a", a), ("b", b)))
    beats = {last: Heartbeat(counter=9, epoch=4, queries=tuple(progress))}
    assert isinstance(recover(replace(snapshot(*killed, at=410.0), heartbeats=beats), ME, None, {}), kind)
    # It fails from then on: pauses of 1 and 2 minutes.
    failing = [*killed]
    for number, pause in ((3, 60.0), (4, 120.0)):
        name = TaskIdentity("orders__revive", f"r{number}", "revive").deployment("orders", "1")
        tried = 500.0 + 100.0 * number
        failing += [again(tried, name, f"r{number}"), failed(None, name)]
        for left, then in ((1.0, Skip), (-1.0, kind)):
            found = replace(snapshot(*failing, at=tried + pause - left), heartbeats=beats)
            assert isinstance(recover(found, ME, None, {}), then)


@pytest.mark.parametrize(("committed", "version"), [(None, "2"), (False, "1"), (True, "2")])
def test_an_older_release_follows_one_that_failed_uncommitted(committed: bool | None, version: str) -> None:
    ended = [fenced(OLD), failed(None, OLD_DEPLOYMENT), failed(NEW, committed=committed)]
    step = take(*HANDED_OVER, *ended)
    assert isinstance(step, Append)
    assert step.fields["release"]["hash"] == hash_of({"1": OLD_DEPLOYMENT, "2": NEW_DEPLOYMENT}[version])


def failing(tries: int) -> list[Record]:
    """Tries of the new release that come to hold and fail before they have committed anything."""
    story: list[Record] = []
    for number in range(tries):
        release = {"version": "2", "hash": hash_of(NEW_DEPLOYMENT)}
        tried, *more, acquires, _killed, _ended = held(1 + number, 200.0)
        tried = replace(tried, fields={**tried.fields, "release": release})
        story += [tried, *more, acquires, failed(acquires["incarnation"], committed=False)]
    return story


KILLED = [fenced(NEW, committed=False), failed(None, NEW_DEPLOYMENT)]


@pytest.mark.parametrize(
    ("ends", "tries", "release"),
    [
        (KILLED, 0, NEW_DEPLOYMENT),
        (KILLED, 1, OLD_DEPLOYMENT),
        ([released(NEW, None, None, committed=False), retired(NEW_DEPLOYMENT)], 1, OLD_DEPLOYMENT),
        ([fenced(NEW, committed=True), failed(None, NEW_DEPLOYMENT)], 129, NEW_DEPLOYMENT),
        ([fenced(NEW), failed(None, NEW_DEPLOYMENT)], 2, NEW_DEPLOYMENT),
        ([fenced(NEW), failed(None, NEW_DEPLOYMENT)], 3, OLD_DEPLOYMENT),
        ([released(NEW, None, None), retired(NEW_DEPLOYMENT)], 129, OLD_DEPLOYMENT),
        ([failed(NEW)], 0, NEW_DEPLOYMENT),
    ],
    ids=[
        "killed",
        "and fails",
        "drained",
        "had committed",
        "unknown",
        "fails 3 times",
        "for a day",
        "by an old driver",
    ],
)
def test_a_release_of_which_nobody_has_seen_a_commit_does_not_keep_the_older_one_out(
    ends: list[Record], tries: int, release: str
) -> None:
    """Found by a review: a holder that was killed before its first commit counted as a proof of its release."""
    state = play([*HANDED_OVER, *ends, *failing(tries)])
    assert (state.illegal_count, release_to_run(state, 300.0)) == (0, hash_of(release))


def test_an_outage_of_a_day_does_not_bring_back_an_older_release() -> None:
    """Found by a review: the holder that had proven the release was forgotten after a hundred tries in the outage."""
    state = play([*HANDED_OVER, fenced(NEW, committed=True), failed(None, NEW_DEPLOYMENT), *failing(120)])
    assert (state.illegal_count, state.epoch, NEW in state.incarnations) == (0, 122, False)
    assert release_to_run(state, 300.0) == hash_of(NEW_DEPLOYMENT)


def test_an_older_release_does_not_follow_one_that_was_killed_before_its_first_heartbeat_as_holder() -> None:
    killed = [*HANDED_OVER, retired(OLD_DEPLOYMENT), fenced(NEW), failed(None, NEW_DEPLOYMENT)]
    found = replace(snapshot(*killed), heartbeats={NEW: Heartbeat(counter=9, epoch=1)})
    step = recover(found, ME, None, {})
    assert isinstance(step, Append)
    assert step.fields["release"]["hash"] == hash_of(NEW_DEPLOYMENT)


def test_an_open_request_is_followed_and_ended_when_nobody_can_act_on_it() -> None:
    step = take(*REQUESTED)
    assert step == Wait(RequestOver("up", 200.0, (OLD, NEW), 30.0))
    silent = WaitOutcome(Ended.SILENT, NEW, "no heartbeat for 61 s")
    assert take(*READY, fencing(NEW), outcome=silent) == Kill(deployment_of(NEW), Dead(NEW, 30.0))
    expired = take(*REQUESTED, at=201.0)
    assert isinstance(expired, Append)
    assert (expired.kind, expired.fields["request"]) == ("aborted", "up")


@pytest.mark.parametrize("records", [[], STARTED, STOPPED, [*RUNNING, finished(OLD)]])
def test_what_nobody_wants_to_run_is_left_alone(records: list[Record]) -> None:
    assert isinstance(take(*records), Skip)


def test_the_cluster_is_asked_about_what_is_on_its_way_while_nobody_holds() -> None:
    assert drivers_of_interest(snapshot(*HANDED_OVER)) == ()
    assert drivers_of_interest(snapshot(*DOWN, again())) == ()
    assert drivers_of_interest(snapshot(*DOWN, again(), submitted(AGAIN))) == (AGAIN,)
