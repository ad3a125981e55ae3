"""The plans as tables: a state of the log on the left, the next step on the right."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import Dead, DriversGone, FirstCommits, RequestOver, StandbyUp
from airflow_stream_provider.planning.plan import leftovers, retire, roll_back, stand_by, stop, take_over
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Kill, Skip, Submit, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from tests.support.snapshots import ASKED, BACK, BOTH, ME, RELEASED, RUNNING, UPGRADED, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    fenced,
    ready,
    record,
    released,
    requested,
    submitted,
)


def take(*records: Record, outcome: WaitOutcome | None = None, **options: Any) -> Any:
    return take_over(snapshot(*records), ME, NEW_DEPLOYMENT, outcome, "why", **options)


def test_a_declared_deployment_is_submitted_then_waited_for() -> None:
    new = declared(NEW_DEPLOYMENT)
    assert stand_by(snapshot(*RUNNING, new), NEW_DEPLOYMENT, None) == Submit(NEW_DEPLOYMENT)
    waiting = stand_by(snapshot(*RUNNING, new, submitted(NEW_DEPLOYMENT)), NEW_DEPLOYMENT, None)
    assert waiting == Wait(StandbyUp(NEW_DEPLOYMENT))
    done = stand_by(snapshot(*BOTH), NEW_DEPLOYMENT, None)
    assert isinstance(done, Done)
    assert done.result["incarnation"] == NEW


def test_a_standby_that_became_the_holder_meanwhile_is_up_too() -> None:
    assert isinstance(stand_by(snapshot(*UPGRADED), NEW_DEPLOYMENT, None), Done)


def test_a_refused_rehearsal_is_final_and_says_who_holds() -> None:
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")
    step = stand_by(
        snapshot(*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal), NEW_DEPLOYMENT, None
    )
    assert isinstance(step, GiveUp)
    assert f"{OLD_DEPLOYMENT} (release 1) holds the stream." in str(step.error)


def test_a_driver_that_died_without_a_word_is_put_on_record() -> None:
    records = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    lost = WaitOutcome(Ended.LOST, NEW_DEPLOYMENT, "its driver is gone (failed)")
    step = stand_by(snapshot(*records), NEW_DEPLOYMENT, lost)
    assert isinstance(step, Append)
    assert step.kind == "failed"
    assert isinstance(stand_by(snapshot(*records, record(step.kind, **step.fields)), NEW_DEPLOYMENT, lost), GiveUp)


def test_a_hand_over_is_asked_for_once_and_followed() -> None:
    step = take(*BOTH)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", NEW)
    assert step.fields["request"] == take(*BOTH).fields["request"]
    for story in (ASKED, RELEASED):
        following = take(*story)
        assert isinstance(following, Wait)
        assert isinstance(following.condition, RequestOver)
        assert following.condition.watched == (OLD, NEW)


def test_a_done_hand_over_waits_for_the_first_batch_and_then_stays_done() -> None:
    assert take(*UPGRADED) == Wait(FirstCommits(NEW, ("a",), 120.0))
    done = take(*UPGRADED, outcome=WaitOutcome(Ended.REACHED, NEW))
    assert isinstance(done, Done)
    assert (done.result["previous"], done.result["epoch"]) == (OLD_DEPLOYMENT, 2)
    later = [
        *UPGRADED,
        requested("later", OLD),
        ready("later", OLD),
        released(NEW, "later", OLD),
        acquired(OLD, "later", 3),
    ]
    cleared = take(*later)
    assert isinstance(cleared, Done)
    assert cleared.result["holder"] == OLD_DEPLOYMENT


def test_a_holder_that_broke_inside_a_batch_is_fenced_whoever_follows_the_request() -> None:
    torn = record("failed", deployment=OLD_DEPLOYMENT, incarnation=OLD, reason="it broke", boundary="interrupted")
    killing = Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    assert take(*ASKED, torn) == killing
    assert retire(snapshot(*ASKED, torn), ME, NEW_DEPLOYMENT, None, "why") == killing


def test_without_a_holder_the_standby_is_appointed() -> None:
    step = take(*up(NEW))
    assert isinstance(step, Append)
    assert step.kind == "requested"


def test_the_first_release_of_all_is_not_waited_for() -> None:
    first = [*up(NEW), requested("mine", NEW, by=ME.by), ready("mine", NEW), acquired(NEW, "mine", 1)]
    assert isinstance(take(*first), Done)


def test_without_a_standby_there_is_no_hand_over() -> None:
    gone = record("retired", deployment=NEW_DEPLOYMENT, reason="")
    assert isinstance(take(*BOTH, gone), GiveUp)


def test_a_silent_holder_is_killed_confirmed_and_fenced_and_the_request_goes_on() -> None:
    killing = take(*ASKED, outcome=WaitOutcome(Ended.SILENT, OLD, "no heartbeat for 70 s"))
    assert killing == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    step = take(*ASKED, outcome=WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"}))
    assert isinstance(step, Append)
    assert (step.kind, step.fields["evidence"]) == ("fenced", {"driver": "killed"})
    assert isinstance(take(*ASKED, fenced(OLD)), Wait)


def test_a_holder_killed_while_its_request_was_aborted_is_fenced_all_the_same() -> None:
    aborted = record("aborted", by=ME.by, request="mine", reason="late")
    step = take(*ASKED, aborted, outcome=WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"}))
    assert isinstance(step, Append)
    assert step.kind == "fenced"
    again = take(*ASKED, aborted, fenced(OLD))
    assert isinstance(again, Append)
    assert (again.kind, again.fields["to"]) == ("requested", NEW)
    assert again.fields["request"] != take(*BOTH).fields["request"]


def test_what_stopped_inside_a_batch_is_fenced_before_anybody_takes_over() -> None:
    story = [*ASKED, ready("mine", NEW), released(OLD, "mine", NEW, "interrupted")]
    assert take(*story) == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))


def test_a_dead_standby_ends_the_request_and_the_holder_goes_on() -> None:
    step = take(*ASKED, fenced(NEW))
    assert isinstance(step, Append)
    assert step.kind == "aborted"
    over = take(*ASKED, fenced(NEW), record("aborted", request="mine", reason="dead"))
    assert isinstance(over, GiveUp)
    assert "was aborted: dead" in str(over.error)


def test_a_request_that_is_taken_back_is_not_repeated() -> None:
    assert isinstance(take(*RELEASED, acquired(OLD, "mine", 2)), GiveUp)


def test_an_expired_request_is_aborted() -> None:
    step = take(*ASKED, outcome=WaitOutcome(Ended.LOST, "mine", "late"))
    assert isinstance(step, Append)
    assert step.kind == "aborted"


def test_a_roll_back_fences_whoever_does_not_let_go() -> None:
    missed = [
        *UPGRADED,
        requested("back", OLD, by=BACK.by),
        record("aborted", by=BACK.by, request="back", reason="missed"),
    ]
    step = roll_back(snapshot(*missed), BACK, NEW_DEPLOYMENT, None, "bad")
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
    assert (cold.kind, cold.fields["release"]["hash"]) == ("declared", OLD_DEPLOYMENT)
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


def test_a_stop_asks_the_holder_then_ends_every_driver() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    step = stop(snapshot(*RUNNING), identity, None, "why")
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", None)
    stopped = [*RUNNING, requested("stop", None, by=identity.by), released(OLD, "stop", None)]
    ending = stop(snapshot(*stopped), identity, None, "why")
    assert ending == Append("retired", {"deployment": OLD_DEPLOYMENT, "reason": "why"})
    retired = [*stopped, record("retired", by=identity.by, deployment=OLD_DEPLOYMENT, reason="why")]
    assert stop(snapshot(*retired), identity, None, "why") == Wait(DriversGone(OLD_DEPLOYMENT, 170.0))
    gone = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
    done = stop(snapshot(*retired, drivers=gone), identity, None, "why")
    assert isinstance(done, Done)
    assert done.result["stopped"] is True


def test_a_cleared_stop_leaves_what_was_started_since_alone() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    stopped = [*RUNNING, requested("stop", None, by=identity.by), released(OLD, "stop", None)]
    retired = [*stopped, record("retired", by=identity.by, deployment=OLD_DEPLOYMENT, reason="why")]
    gone = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
    waiting = stop(snapshot(*retired, *up(NEW), drivers=gone), identity, None, "why")
    assert isinstance(waiting, Done)
    started = [*retired, *up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2)]
    done = stop(snapshot(*started, drivers=gone), identity, None, "why")
    assert isinstance(done, Done)
    assert (done.result["stopped"], done.result["holder"]) == (False, NEW_DEPLOYMENT)


def test_a_holder_that_missed_its_stop_goes_on() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    missed = [
        *RUNNING,
        requested("stop", None, by=identity.by),
        record("aborted", incarnation=OLD, request="stop", reason="m"),
    ]
    assert isinstance(stop(snapshot(*missed), identity, None, "why"), GiveUp)


def test_only_what_does_not_hold_is_retired() -> None:
    assert isinstance(retire(snapshot(*BOTH), ME, OLD_DEPLOYMENT, None, "why"), Skip)
    assert isinstance(retire(snapshot(*BOTH), ME, "nobody", None, "why"), Skip)
    assert isinstance(retire(snapshot(*ASKED), ME, NEW_DEPLOYMENT, None, "why"), Wait)
    step = retire(snapshot(*BOTH), ME, NEW_DEPLOYMENT, None, "why")
    assert step == Append("retired", {"deployment": NEW_DEPLOYMENT, "reason": "why"})


def test_a_retired_driver_that_stays_is_killed() -> None:
    retired = snapshot(*BOTH, record("retired", deployment=NEW_DEPLOYMENT, reason=""))
    gone = DriversGone(NEW_DEPLOYMENT, 170.0)
    assert retire(retired, ME, NEW_DEPLOYMENT, None, "why") == Wait(gone)
    assert retire(retired, ME, NEW_DEPLOYMENT, WaitOutcome(Ended.LOST, NEW_DEPLOYMENT), "why") == Kill(
        NEW_DEPLOYMENT, gone
    )
    assert isinstance(retire(retired, ME, NEW_DEPLOYMENT, WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT), "why"), Done)


def test_one_that_was_never_submitted_is_retired_at_once() -> None:
    story = [*RUNNING, declared(NEW_DEPLOYMENT), record("retired", deployment=NEW_DEPLOYMENT, reason="")]
    assert isinstance(retire(snapshot(*story), ME, NEW_DEPLOYMENT, None, "why"), Done)


def test_room_is_made_of_what_was_there_before_this_run() -> None:
    room = TaskIdentity("dag", "run", "make_room")
    assert leftovers(snapshot(*UPGRADED), room) == (OLD_DEPLOYMENT,)
    retired = record("retired", by=room.by, deployment=OLD_DEPLOYMENT, reason="")
    later = declared("orders-3-cccc")
    assert leftovers(snapshot(*UPGRADED, retired, later), room) == (OLD_DEPLOYMENT,)
    other = TaskIdentity("dag", "another run", "make_room")
    assert leftovers(snapshot(*UPGRADED, retired, later), other) == ("orders-3-cccc",)
