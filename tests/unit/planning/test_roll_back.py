"""Rolling back, step by step."""

from __future__ import annotations

from airflow_stream_provider.planning.conditions import Dead, RequestOver
from airflow_stream_provider.planning.roll_back import roll_back
from airflow_stream_provider.planning.steps import Append, GiveUp, Kill, Skip, Submit, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from tests.support.snapshots import BACK, BOTH, RUNNING, UPGRADED, snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    declared,
    fenced,
    fencing,
    hash_of,
    record,
    released,
    requested,
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
    assert isinstance(after, Append)
    assert (after.kind, after.fields["to"]) == ("requested", OLD)


def test_a_roll_back_goes_to_the_warm_one_or_brings_the_release_up_anew() -> None:
    warm = roll_back(snapshot(*UPGRADED), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(warm, Append)
    assert (warm.kind, warm.fields["to"]) == ("requested", OLD)
    retired = record("retired", deployment=OLD_DEPLOYMENT, reason="")
    cold = roll_back(snapshot(*UPGRADED, retired), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(cold, Append)
    assert (cold.kind, cold.fields["release"]["hash"]) == ("declared", hash_of(OLD_DEPLOYMENT))
    again = roll_back(snapshot(*UPGRADED, retired, record(cold.kind, **cold.fields)), BACK, NEW_DEPLOYMENT, None, "bad")
    assert again == Submit(cold.fields["deployment"])


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
    step = roll_back(snapshot(*story), BACK, NEW_DEPLOYMENT, None, "bad")
    assert isinstance(step, Append)
    assert step.kind == "declared"


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
    step = roll_back(snapshot(*UPGRADED), BACK, NEW_DEPLOYMENT, None, "bad", fault_found=False)
    assert isinstance(step, GiveUp)
    assert f"No fault of {NEW_DEPLOYMENT} was found" in str(step.error)
    assert "Clear the task that failed" in str(step.error)


def test_one_that_does_not_hold_any_more_needs_no_other_fault() -> None:
    dead = roll_back(snapshot(*UPGRADED, fenced(NEW)), BACK, NEW_DEPLOYMENT, None, "bad", fault_found=False)
    assert isinstance(dead, Append)
    assert (dead.kind, dead.fields["to"]) == ("requested", OLD)
