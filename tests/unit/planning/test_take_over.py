"""Taking over, and following a request: a state of the log on the left, the next step on the right."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import FirstCommits, RequestOver
from airflow_stream_provider.planning.retire import retire
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Kill, Wait
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ASKED, BOTH, ME, RELEASED, UPGRADED, appended, given_up, results, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    fenced,
    fencing,
    ready,
    record,
    released,
    requested,
)


def take(*records: Record, outcome: WaitOutcome | None = None, **options: Any) -> Any:
    return take_over(snapshot(*records), ME, NEW_DEPLOYMENT, outcome, "why", **options)


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
    assert results(done, "previous", "epoch") == (OLD_DEPLOYMENT, 2)
    later = [
        *UPGRADED,
        requested("later", OLD),
        ready("later", OLD),
        released(NEW, "later", OLD),
        acquired(OLD, "later", 3),
    ]
    assert results(take(*later), "holder") == (OLD_DEPLOYMENT,)


def test_a_holder_that_broke_inside_a_batch_is_fenced_whoever_follows_the_request() -> None:
    torn = record("failed", deployment=OLD_DEPLOYMENT, incarnation=OLD, reason="it broke", boundary="interrupted")
    killing = Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    assert take(*ASKED, torn, fencing(OLD)) == killing
    assert retire(snapshot(*ASKED, torn, fencing(OLD)), NEW_DEPLOYMENT, None, "why") == killing


def test_without_a_holder_the_standby_is_appointed() -> None:
    assert appended(take(*up(NEW))) == ("requested",)


def test_the_first_release_of_all_is_not_waited_for() -> None:
    first = [*up(NEW), requested("mine", NEW, by=ME.by), ready("mine", NEW), acquired(NEW, "mine", 1)]
    assert isinstance(take(*first), Done)


def test_without_a_standby_there_is_no_hand_over() -> None:
    gone = record("retired", deployment=NEW_DEPLOYMENT, reason="")
    assert isinstance(take(*BOTH, gone), GiveUp)


def test_a_silent_holder_is_killed_confirmed_and_fenced_and_the_request_goes_on() -> None:
    killing = take(*ASKED, fencing(OLD), outcome=WaitOutcome(Ended.SILENT, OLD, "no heartbeat for 70 s"))
    assert killing == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    step = take(*ASKED, outcome=WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"}))
    assert appended(step, "evidence") == ("fenced", {"driver": "killed"})
    assert isinstance(take(*ASKED, fenced(OLD)), Wait)


def test_a_holder_killed_while_its_request_was_aborted_is_fenced_all_the_same() -> None:
    aborted = record("aborted", by=ME.by, request="mine", reason="late")
    step = take(*ASKED, aborted, outcome=WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"}))
    assert appended(step) == ("fenced",)
    again = take(*ASKED, aborted, fenced(OLD))
    assert isinstance(again, Append)
    assert (again.kind, again.fields["to"]) == ("requested", NEW)
    assert again.fields["request"] != take(*BOTH).fields["request"]


def test_what_stopped_inside_a_batch_is_fenced_before_anybody_takes_over() -> None:
    story = [*ASKED, ready("mine", NEW), released(OLD, "mine", NEW, "interrupted")]
    assert take(*story, fencing(OLD)) == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))


def test_a_dead_standby_ends_the_request_and_the_holder_goes_on() -> None:
    assert appended(take(*ASKED, fenced(NEW))) == ("aborted",)
    over = take(*ASKED, fenced(NEW), record("aborted", request="mine", reason="dead"))
    assert "was aborted: dead" in given_up(over)


def test_a_request_that_is_taken_back_is_not_repeated() -> None:
    assert isinstance(take(*RELEASED, acquired(OLD, "mine", 2)), GiveUp)


def test_an_expired_request_is_aborted() -> None:
    assert appended(take(*ASKED, outcome=WaitOutcome(Ended.EXPIRED, "mine", "late"))) == ("aborted",)


def test_an_appointment_that_was_aborted_is_made_again_under_another_id() -> None:
    story = [*BOTH, fenced(OLD)]
    ids = []
    for _ in range(3):
        step = take(*story)
        assert isinstance(step, Append)
        assert step == take(*story), "the same however often it is tried"
        ids.append(step.fields["request"])
        abort = record("aborted", by=ME.by, request=ids[-1], reason="it has expired")
        story += [requested(ids[-1], NEW, by=ME.by), abort]  # `snapshot` checks the rules
    assert len(set(ids)) == 3


def test_a_holder_that_hangs_is_fenced_without_being_asked() -> None:
    assert take(*BOTH, hangs="It hangs.") == Append("fencing", {"incarnation": OLD, "reason": "It hangs."})
    assert take(*BOTH, fencing(OLD), hangs="It hangs.") == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    dead = WaitOutcome(Ended.DEAD, OLD, "gone", {"driver": "killed"})
    assert appended(take(*BOTH, fencing(OLD), hangs="It hangs.", outcome=dead)) == ("fenced",)
    assert appended(take(*BOTH, fencing(OLD), fenced(OLD)), "to") == ("requested", NEW)


def test_one_that_was_asked_in_vain_and_hangs_is_fenced_and_nobody_else_is() -> None:
    missed = [*ASKED, record("aborted", incarnation=OLD, request="mine", reason="boundary missed")]
    assert isinstance(take(*missed), GiveUp)
    assert take(*missed, hangs="It hangs.") == Append("fencing", {"incarnation": OLD, "reason": "It hangs."})
    # Another driver has come to hold since: an old run that is cleared does not hit that one.
    third = "orders-3-cccc.0000000c"
    since = [*missed, *up(third), requested("c", third), ready("c", third), released(OLD, "c", third)]
    assert isinstance(take(*since, acquired(third, "c", 2), hangs=f"{third} hangs."), GiveUp)


def test_what_hangs_stays_until_somebody_can_take_over() -> None:
    gone = record("retired", deployment=NEW_DEPLOYMENT, reason="")
    assert isinstance(take(*BOTH, gone, hangs="It hangs."), GiveUp)
    assert isinstance(take(*UPGRADED, hangs="It hangs."), Wait)
