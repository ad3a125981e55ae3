"""A task states its wish once, and goes on until that is so, or another one has replaced it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.conditions import FirstCommits, NextTry
from airflow_stream_provider.planning.pursue import pursue
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import GiveUp, Skip, Step, Wait, Want
from airflow_stream_provider.planning.verbs import Answer
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import BOTH, ME, RUNNING, STOPPED, brief, given_up, results, scene, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    aborted,
    acquired,
    declared,
    ending,
    failed,
    fenced,
    finished,
    following,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
    wanted,
)

WANT = Want({"wish": ME.wish, "goal": "hold", "reason": "why", "family": "new"})
MINE = wanted(ME.wish, family="new", approved="it passed", by=ME.by)
HELD = [*BOTH, MINE, requested("r", NEW, wish=ME.wish), ready("r", NEW), released(OLD, "r", NEW), acquired(NEW, "r", 2)]
STOP = wanted(ME.wish, "stop", by=ME.by)
STAND_BY = wanted(ME.wish, "stand_by", by=ME.by)
REPLACED = wanted("more", "stop", by="person:anna")
BEAT = {OLD: True, NEW: True}
SEEN = WaitOutcome(Ended.REACHED, NEW)


def wants() -> Answer:
    return WANT


def never() -> Answer:
    raise AssertionError("it has stated its wish")


def take(*records: Record, verb: Callable[[], Answer] = never, **more: Any) -> Step:
    return pursue(scene(*records, **{"lives": BEAT, **more}), verb)


def test_it_states_its_wish_once() -> None:
    assert take(*BOTH, verb=wants) == WANT
    assert brief(take(*BOTH, MINE)) == "requested NEW"


@pytest.mark.parametrize("records", [[*BOTH, MINE], [*BOTH, STOP], [*BOTH, STAND_BY]])
def test_one_that_was_replaced_says_by_which_and_by_whom_and_does_nothing(records: list[Record]) -> None:
    said = given_up(take(*records, wanted("more", by="person:anna")))
    assert f"was replaced by record {len(records) + 1}, by person:anna (a person wants it)." in said
    assert "ask for it again, in a new run" in said


def test_one_that_was_forgotten_was_replaced_long_ago() -> None:
    later = [wanted(f"w{number}") for number in range(210)]
    found = scene(MINE_ALONE, *later)
    assert ME.wish in found.state.forgotten
    assert "was replaced by record 211" in given_up(pursue(found, never))


MINE_ALONE = wanted(ME.wish, by=ME.by)


def test_a_stop_that_is_cleared_long_after_stops_nothing_that_was_started_since() -> None:
    stopped = [*RUNNING, STOP, requested("s", None, wish=ME.wish), released(OLD, "s", None), retired(OLD_DEPLOYMENT)]
    assert "was replaced by record" in given_up(take(*stopped, wanted("go")))
    assert results(take(*stopped, wanted("off", "leave"), drivers=GONE), "stopped") == (True,)


GONE = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}


@pytest.mark.parametrize("records", [[MINE_ALONE, declared("o-1", ME.wish)], [*BOTH, STAND_BY]])
def test_two_at_once_for_the_same_go_on(records: list[Record]) -> None:
    family = records[-2]["wish"] if records[-1].kind == "declared" else ME.wish
    assert not isinstance(take(*records, wanted("more", family=family)), GiveUp)


def test_a_hand_over_is_followed_and_waits_for_the_first_batch_and_then_stays_done() -> None:
    assert brief(take(*HELD[:-3])) == "wait RequestOver"
    assert take(*HELD) == Wait(FirstCommits(NEW, ("a",), 120.0))
    for step in (take(*HELD, outcome=SEEN), take(*HELD, at=121.0), take(*HELD, at=141.0)):
        assert results(step, "previous", "holder", "epoch", "request", "family") == (
            OLD_DEPLOYMENT, NEW_DEPLOYMENT, 2, "r", "new",
        )  # fmt: skip
    assert brief(take(*HELD, at=141.0, lives={})) == "wait SignsOfLife", "its driver may be dead by now"
    assert brief(take(*HELD, at=141.0, lives={NEW: False})) == "fencing NEW"


def test_the_first_release_of_all_is_not_waited_for() -> None:
    first = [MINE_ALONE, *up(OLD, ME.wish), requested("r", OLD, wish=ME.wish), ready("r", OLD), acquired(OLD, "r", 1)]
    assert results(take(*first), "holder", "request", "previous") == (OLD_DEPLOYMENT, "r", "")


def test_an_adoption_waits_for_the_first_batch_since_its_gap_is_that_of_the_job() -> None:
    asked = wanted(ME.wish, policy={"adopts": True}, adopts=True, job="driver-1", by=ME.by)
    follower = [following(OLD_DEPLOYMENT, ME.wish), submitted(OLD_DEPLOYMENT), standby(OLD), ending(OLD_DEPLOYMENT)]
    gone = requested("r", OLD, wish=ME.wish, evidence={"job": "driver-1", "state": "killed"})
    step = take(asked, *follower, gone, ready("r", OLD), acquired(OLD, "r", 1))
    assert step == Wait(FirstCommits(OLD, ("a",), 120.0))


def test_what_held_before_the_wish_is_no_request_of_it() -> None:
    again = [*RUNNING, wanted(ME.wish, family="old", by=ME.by)]
    assert results(take(*again), "holder", "request") == (OLD_DEPLOYMENT, "")


def test_a_stop_is_done_once_every_driver_is_gone() -> None:
    asked = [*RUNNING, STOP, requested("s", None, wish=ME.wish)]
    ended = [*asked, released(OLD, "s", None), retired(OLD_DEPLOYMENT)]
    steps = [take(*asked), take(*ended[:-1]), take(*ended), take(*ended, drivers=GONE)]
    assert [brief(step) for step in steps] == ["wait RequestOver", "retired old", "wait DriversGone", "done"]
    assert results(steps[-1], "stopped", "holder", "request") == (True, "", "s")
    assert results(take(*RUNNING, failed(OLD), STOP), "stopped", "request") == (True, "")


def test_a_stop_that_another_one_has_fulfilled_is_done_too() -> None:
    story = [*STOPPED, retired(OLD_DEPLOYMENT), STOP]
    assert results(take(*story, drivers=GONE), "stopped", "request") == (True, "")


def test_a_standby_is_up_and_says_how_its_rehearsal_was() -> None:
    up_now = [*RUNNING, STAND_BY, *up(NEW, ME.wish)]
    expected: tuple[Any, ...] = (NEW_DEPLOYMENT, NEW, {}, ME.wish, OLD_DEPLOYMENT)
    names = ("deployment", "incarnation", "rehearsal", "family", "holder")
    assert results(take(*up_now), *names) == expected
    assert results(take(*up_now, lives={OLD: False}), *names) == expected, "the holder is left to others"
    held = [requested("r", NEW, wish="t"), ready("r", NEW), released(OLD, "r", NEW), acquired(NEW, "r", 2)]
    promoted = [*up_now, wanted("t", family=ME.wish, approved="x"), *held]
    assert results(take(*promoted), "deployment", "holder") == (NEW_DEPLOYMENT, NEW_DEPLOYMENT)


def test_a_refused_rehearsal_is_final_and_says_who_holds() -> None:
    said = given_up(take(*RUNNING, STAND_BY, *up(NEW, ME.wish), failed(NEW)))
    assert f"Release 1 ({NEW_DEPLOYMENT}) failed: it broke: Boom. {OLD_DEPLOYMENT} (release 1) holds" in said


@pytest.mark.parametrize("waits", [MINE_ALONE, STAND_BY])
def test_a_script_that_has_ended_by_itself_is_not_waited_for(waits: Record) -> None:
    first = [waits, *up(OLD, ME.wish)]
    first += [wanted("t", family=ME.wish)] if waits is STAND_BY else []
    held = [*first, requested("r", OLD), ready("r", OLD), acquired(OLD, "r", 1), finished(OLD)]
    for records in (held, [*held, wanted("third", "stand_by")]):
        assert "has ended by itself" in given_up(take(*records))
    assert "has ended by itself" not in given_up(take(*held, wanted("go")))


def test_a_start_waits_while_its_drivers_are_lost_and_gives_up_when_they_fail() -> None:
    def tried(number: int, *end: Record) -> list[Record]:
        name = f"o-{number}.0000000a"
        return [declared(f"o-{number}", ME.wish, again="o-0", at=100.0), submitted(f"o-{number}"), standby(name), *end]

    first = [MINE_ALONE, declared("o-0", ME.wish), failed(None, "o-0")]
    lost = tried(1, fenced("o-1.0000000a"), failed(None, "o-1"))
    assert take(*first, *lost) == Wait(NextTry("o-1", 160.0))
    step = take(*first, *tried(1, failed("o-1.0000000a")))
    assert "was started 1 times within an hour and failed each time, last as o-1: it broke: Boom." in given_up(step)


def test_what_is_so_already_is_looked_at_before_it_is_said() -> None:
    skip = Skip("Release 1 runs already.")
    assert take(*RUNNING, verb=lambda: skip) == skip
    assert brief(take(*RUNNING, verb=lambda: skip, lives={})) == "wait SignsOfLife"
    assert brief(take(*RUNNING, verb=lambda: skip, lives={OLD: False})) == "fencing OLD"
    assert take(*RUNNING, fenced(OLD), verb=lambda: skip) == skip
    in_vain = [*RUNNING, REPLACED, requested("s", None, wish="more"), aborted("s", name=OLD)]
    assert take(*in_vain, verb=lambda: skip) == skip, "what another one wishes in vain is no error of this task"


def test_what_stands_by_is_called_off_though_the_release_that_is_to_hold_waits_for_approval() -> None:
    records = [*RUNNING, wanted("new", approval=True), wanted("third", "stand_by")]
    found = take(*records, verb=lambda: verbs.withdraw(scene(*records), "", "why"))
    assert isinstance(found, Want)
    assert found.fields["family"] == "new"


def test_a_refusal_is_handed_on() -> None:
    no = GiveUp(HandOverFailed("No.", next_step="Wait."))
    assert take(*RUNNING, verb=lambda: no) == no


def test_a_person_who_is_to_end_a_job_is_asked() -> None:
    follows = [wanted(ME.wish, policy={"adopts": True}, adopts=True), following(OLD_DEPLOYMENT, ME.wish)]
    story = [*follows, submitted(OLD_DEPLOYMENT), standby(OLD)]
    assert brief(take(*story)) == "ending old"
    asks = take(*story, record("ending", deployment=OLD_DEPLOYMENT, job="", expires=700.0, reason="why"))
    assert results(asks, "adopted", "deployment", "says") == (False, OLD_DEPLOYMENT, "")
    asked = requested("r", OLD, wish=ME.wish, evidence={"person": "Ada"})
    taken = [*story, asked, ready("r", OLD), acquired(OLD, "r", 1)]
    assert results(take(*taken, at=121.0), "adopted", "holder", "request") == (True, OLD_DEPLOYMENT, "r")
