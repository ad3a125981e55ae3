"""Rolling back, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.recover import recover
from airflow_stream_provider.planning.roll_back import roll_back
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.steps import Append, GiveUp, Kill, Skip, Submit, TaskIdentity, Wait
from tests.support.snapshots import BACK, BOTH, RUNNING, UPGRADED, appended, given_up, snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    failed,
    fenced,
    fencing,
    finished,
    hash_of,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    stopped,
    submitted,
)


def test_a_roll_back_fences_whoever_does_not_let_go() -> None:
    missed = [
        *UPGRADED,
        requested("back", OLD, by=BACK.by),
        record("aborted", by=BACK.by, request="back", reason="missed"),
    ]
    step = roll_back(snapshot(*missed, fencing(NEW)), BACK, NEW_DEPLOYMENT, None, "bad")
    assert step == Kill(NEW_DEPLOYMENT, Dead(NEW, 30.0))
    after = roll_back(snapshot(*missed, fenced(NEW)), BACK, NEW_DEPLOYMENT, None, "bad")
    assert appended(after, "to") == ("requested", OLD)


def test_a_roll_back_goes_to_the_warm_one_or_brings_the_release_up_anew() -> None:
    assert appended(roll_back(snapshot(*UPGRADED), BACK, NEW_DEPLOYMENT, None, "bad"), "to") == ("requested", OLD)
    gone = retired(OLD_DEPLOYMENT)
    cold = roll_back(snapshot(*UPGRADED, gone), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(cold, Append)
    assert (cold.kind, cold.fields["release"]["hash"]) == ("declared", hash_of(OLD_DEPLOYMENT))
    again = roll_back(snapshot(*UPGRADED, gone, record(cold.kind, **cold.fields)), BACK, NEW_DEPLOYMENT, None, "bad")
    assert again == Submit(cold.fields["deployment"])


def test_a_driver_that_is_lost_while_it_brings_the_release_up_is_followed_by_another() -> None:
    """After the run's own stop, say, nobody else would."""
    mine, second = BACK.deployment("orders", "1"), BACK.deployment("orders", "1", 1)
    driver = f"{mine}.0000000c"
    cold = [*UPGRADED, retired(OLD_DEPLOYMENT), fenced(NEW), declared(mine), submitted(mine)]
    for lost in ([failed(None, mine)], [standby(driver), fenced(driver), failed(None, mine)]):
        step = roll_back(snapshot(*cold, *lost), BACK, NEW_DEPLOYMENT, None, "bad")
        assert isinstance(step, Append)
        assert (step.kind, step.fields["deployment"]) == ("declared", second)
        assert (step.fields["again"], step.fields["instead_of"]) == (OLD_DEPLOYMENT, NEW_DEPLOYMENT)


def test_a_request_to_a_warm_driver_that_is_dead_is_ended_before_its_release_is_brought_up_anew() -> None:
    asked = [*UPGRADED, requested("back", OLD, by=BACK.by), fenced(OLD)]
    assert appended(roll_back(snapshot(*asked), BACK, NEW_DEPLOYMENT, None, "bad"), "request") == ("aborted", "back")
    over = record("aborted", by=BACK.by, request="back", reason="no driver is left that could take over")
    assert appended(roll_back(snapshot(*asked, over), BACK, NEW_DEPLOYMENT, None, "bad")) == ("declared",)


def test_a_release_that_cannot_read_the_checkpoint_any_more_is_refused_with_what_would_help() -> None:
    gone = [*UPGRADED, retired(OLD_DEPLOYMENT)]
    cold = roll_back(snapshot(*gone), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(cold, Append)
    again, driver = cold.fields["deployment"], f"{cold.fields['deployment']}.0000000c"
    refused = failed(driver, again, queries=[{"name": "a"}])
    step = roll_back(snapshot(*gone, record(cold.kind, **cold.fields), refused), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(step, GiveUp)
    said = str(step.error)
    assert f"Release 1 ({again}), which held before, was started again and failed: it broke: Boom." in said
    assert f"{NEW_DEPLOYMENT} (release 1) holds the stream" in said
    assert "redeploy or upgrade to a release that can, or put a back-up of the checkpoint back" in said


def test_there_may_be_nothing_to_roll_back() -> None:
    assert isinstance(roll_back(snapshot(*BOTH), BACK, NEW_DEPLOYMENT, None, "bad"), Skip)
    assert isinstance(roll_back(snapshot(*RUNNING), BACK, OLD_DEPLOYMENT, None, "bad"), Skip)


def test_a_stopped_stream_is_not_started_by_the_roll_back_of_a_run_that_changed_nothing() -> None:
    stopped = [*RUNNING, requested("stop", None, by="a person"), released(OLD, "stop", None)]
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")
    story = [*stopped, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal]
    assert isinstance(roll_back(snapshot(*story), BACK, NEW_DEPLOYMENT, None, "bad"), Skip)


def test_a_restart_that_is_refused_brings_the_old_release_back() -> None:
    mine = TaskIdentity("dag", "run", "stop_first")
    stopped = [*RUNNING, requested("stop", None, by=mine.by), released(OLD, "stop", None)]
    gone = record("retired", deployment=OLD_DEPLOYMENT, reason="")
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")
    story = [*stopped, gone, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal]
    assert appended(roll_back(snapshot(*story), BACK, NEW_DEPLOYMENT, None, "bad")) == ("declared",)


def test_a_release_that_is_declared_again_keeps_what_this_version_does_not_know() -> None:
    newer = {"version": "1", "hash": "0" * 64, "jars": ["a.jar"]}
    old = record("declared", deployment=OLD_DEPLOYMENT, release=newer, policy={"colour": "red"}, reason="")
    story = [old if r.kind == "declared" and r["deployment"] == OLD_DEPLOYMENT else r for r in UPGRADED]
    step = roll_back(snapshot(*story, fenced(OLD)), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(step, Append)
    assert (step.fields["release"], step.fields["policy"]) == (newer, {"colour": "red"})


def test_a_restart_that_declared_nothing_brings_the_old_release_back() -> None:
    mine = TaskIdentity("dag", "run", "stop_first")
    asked = [*RUNNING, requested("stop", None, by=mine.by)]
    step = roll_back(snapshot(*asked), BACK, "", None, "no room")
    assert isinstance(step, Wait), "the holder may still stop"
    assert isinstance(step.condition, RequestOver)
    stopped = [*asked, released(OLD, "stop", None)]
    gone = record("retired", deployment=OLD_DEPLOYMENT, reason="")
    for fault_found in (True, False):
        step = roll_back(snapshot(*stopped, gone), BACK, "", None, "no room", fault_found=fault_found)
        assert isinstance(step, Append)
        assert (step.kind, step.fields["release"]["hash"]) == ("declared", hash_of(OLD_DEPLOYMENT))


def test_a_holder_without_a_fault_stays() -> None:
    said = given_up(roll_back(snapshot(*UPGRADED), BACK, NEW_DEPLOYMENT, None, "bad", fault_found=False))
    assert f"No fault of {NEW_DEPLOYMENT} was found" in said
    assert "Clear the task that failed" in said


def test_one_that_does_not_hold_any_more_needs_no_other_fault() -> None:
    dead = roll_back(snapshot(*UPGRADED, fenced(NEW)), BACK, NEW_DEPLOYMENT, None, "bad", fault_found=False)
    assert appended(dead, "to") == ("requested", OLD)


WATCH = TaskIdentity("streams__revive", "run", "revive")
COLD = [*UPGRADED, retired(OLD_DEPLOYMENT), failed(NEW)]
AGAIN = WATCH.deployment("orders", "1")
AGAIN_DRIVER = f"{AGAIN}.0000000a"


def back(*records: Record, fault_found: bool = True) -> Any:
    return roll_back(snapshot(*records), BACK, NEW_DEPLOYMENT, None, "bad", fault_found=fault_found)


def made(step: Any, identity: TaskIdentity) -> Record:
    """The record that a step appends."""
    assert isinstance(step, Append), step
    return record(step.kind, by=identity.by, **step.fields)


def by_watch() -> Record:
    """What the watch declares when it finds NEW failed."""
    found = made(recover(snapshot(*COLD), WATCH, None, {}), WATCH)
    assert (found["deployment"], found["release"]["hash"]) == (AGAIN, hash_of(NEW_DEPLOYMENT))
    return found


def test_the_watch_does_not_bring_up_what_is_rolled_back_from_but_what_the_roll_back_declared() -> None:
    declared_back = made(back(*COLD), BACK)
    mine = declared_back["deployment"]
    assert (declared_back["again"], declared_back["instead_of"]) == (OLD_DEPLOYMENT, NEW_DEPLOYMENT)
    rolling = [*COLD, declared_back]
    assert isinstance(recover(snapshot(*rolling), WATCH, None, {}), Skip), "the task is about to submit it"
    assert recover(snapshot(*rolling, at=200.0), WATCH, None, {}) == Submit(mine), "the task has died"
    gone = record("failed", deployment=mine, incarnation=None, reason="no room", error="x")
    once_more = made(recover(snapshot(*rolling, gone), WATCH, None, {}), WATCH)
    assert (once_more["again"], once_more["release"]["hash"]) == (mine, hash_of(OLD_DEPLOYMENT))


def test_what_the_watch_has_declared_again_is_ended_before_the_roll_back_declares() -> None:
    assert appended(back(*COLD, by_watch()), "deployment") == ("retired", AGAIN)
    assert made(back(*COLD, by_watch(), submitted(AGAIN), standby(AGAIN_DRIVER)), BACK).kind == "retired"
    assert made(back(*COLD, by_watch(), retired(AGAIN)), BACK)["instead_of"] == NEW_DEPLOYMENT


def test_what_the_watch_has_put_in_charge_again_is_as_bad() -> None:
    asked = [*COLD, by_watch(), submitted(AGAIN), standby(AGAIN_DRIVER), requested("w", AGAIN_DRIVER, by=WATCH.by)]
    appointed = back(*asked)
    assert isinstance(appointed, Wait)
    assert isinstance(appointed.condition, RequestOver)
    held = [*asked, ready("w", AGAIN_DRIVER), acquired(AGAIN_DRIVER, "w", 3)]
    assert isinstance(back(*held, fault_found=False), GiveUp)
    declared_back = made(back(*held), BACK)
    assert declared_back["instead_of"] == NEW_DEPLOYMENT
    mine = declared_back["deployment"]
    up = [*held, declared_back, submitted(mine), standby(f"{mine}.0000000b")]
    handed_over = back(*up)
    assert (handed_over.kind, handed_over.fields["to"]) == ("requested", f"{mine}.0000000b")


def test_what_a_roll_back_has_declared_for_nothing_is_ended() -> None:
    """Found by a review: when something else came to hold first, the roll-back's driver stayed on the cluster."""
    mine = made(back(*COLD), BACK)
    own, newer = mine["deployment"], "orders-3-cccc.0000000c"
    up = [mine, submitted(own), standby(f"{own}.0000000b")]
    other = [declared(deployment_of(newer)), submitted(deployment_of(newer)), standby(newer), requested("o", newer)]
    assert isinstance(back(*COLD, *up, *other), Wait), "it may still be needed"
    story = [*COLD, *up, *other, ready("o", newer), acquired(newer, "o", 3)]
    reason = f"It is not needed: {deployment_of(newer)} holds."
    assert back(*story) == Append("retired", {"deployment": own, "reason": reason})
    assert isinstance(back(*story, retired(own)), Skip)
    asked = requested("a person's", f"{own}.0000000b")
    assert isinstance(back(*story, asked), Skip), "somebody wants it"
    taken = [asked, ready("a person's", f"{own}.0000000b"), released(newer, "a person's", f"{own}.0000000b")]
    back_again = [acquired(f"{own}.0000000b", "a person's", 4), requested("p", newer), ready("p", newer)]
    held = [*taken, *back_again, released(f"{own}.0000000b", "p", newer), acquired(newer, "p", 5)]
    assert isinstance(back(*story, *held), Skip), "it has held, and is kept warm"


def test_the_same_release_in_another_run_is_not_rolled_back() -> None:
    other, driver = "orders-2-cccc", "orders-2-cccc.0000000c"
    declared_anew = record(
        "declared", deployment=other, release=declared(NEW_DEPLOYMENT)["release"], policy={}, reason=""
    )
    story = [*COLD, declared_anew, submitted(other), standby(driver), requested("o", driver, by="airflow:other/run/x")]
    assert isinstance(back(*story, ready("o", driver), acquired(driver, "o", 3)), Skip)


@pytest.mark.parametrize("end", [fenced, failed])
def test_an_old_run_that_is_cleared_while_the_stream_is_down_starts_nothing(end: Any) -> None:
    newer, driver = "orders-3-cccc", "orders-3-cccc.00000003"
    story = [*UPGRADED, declared(newer), submitted(newer), standby(driver)]
    story += [requested("o", driver, by="airflow:dag/later/x"), ready("o", driver), released(NEW, "o", driver)]
    assert isinstance(back(*story, acquired(driver, "o", 3), end(driver)), Skip)


def test_a_stream_that_somebody_else_has_stopped_stays_so() -> None:
    person = "airflow:orders__maintenance/run/stop"
    for how in (
        [requested("s", None, by=person), released(NEW, "s", None)],
        [failed(NEW), stopped("s", by=person)],
    ):
        step = back(*UPGRADED, *how)
        assert isinstance(step, Skip)
        assert f"stopped by {person} (a person wants it), and stays so" in step.reason
        assert "`airflow streams start`" in step.reason


@pytest.mark.parametrize("first", ["the run", "a person"])
def test_a_stop_by_a_person_counts_before_and_after_that_of_the_run(first: str) -> None:
    mine, theirs = "airflow:dag/run/stop_first", "airflow:orders__maintenance/run/stop"
    authors = [mine, theirs] if first == "the run" else [theirs, mine]
    story = [*RUNNING, requested("s", None, by=authors[0]), released(OLD, "s", None), stopped("t", by=authors[1])]
    step = back(*story, retired(OLD_DEPLOYMENT))
    assert isinstance(step, Skip)
    assert f"stopped by {theirs}" in step.reason


def test_a_run_that_has_stopped_what_rested_already_starts_nothing() -> None:
    story = [*RUNNING, finished(OLD), stopped("s", by="airflow:dag/run/stop_first")]
    assert isinstance(back(*story), Skip)


def test_a_stop_ends_a_roll_back_that_is_under_way() -> None:
    declared_back = made(back(*COLD), BACK)
    assert isinstance(back(*COLD, declared_back, stopped("s", by="airflow:other/run/stop")), Skip)


def test_a_run_that_has_stopped_what_was_down_starts_it_again() -> None:
    mine = TaskIdentity("dag", "run", "stop_first")
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")
    story = [
        *RUNNING,
        failed(OLD),
        stopped("s", by=mine.by),
        declared(NEW_DEPLOYMENT),
        submitted(NEW_DEPLOYMENT),
        refusal,
    ]
    assert made(back(*story), BACK)["again"] == OLD_DEPLOYMENT
