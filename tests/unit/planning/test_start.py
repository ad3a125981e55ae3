"""Starting a stream as a table: who holds, and who asks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import RequestOver, StandbyUp
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.start import TRIES, end_lost, own_tries, start
from airflow_stream_provider.planning.steps import Declare, GiveUp, Submit, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ME, appended, given_up, results, snapshot, up
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    STOPPED,
    aborted,
    acquired,
    declared,
    failed,
    fenced,
    ready,
    record,
    released,
    requested,
    retired,
    stopped,
    submitted,
)

MINE, NEXT = ME.deployment("orders", "1"), ME.deployment("orders", "1", 1)
DRIVER = f"{MINE}.00000009"
ASKED = [*up(DRIVER), requested("mine", DRIVER, by=ME.by)]
TAKEN = [*ASKED, ready("mine", DRIVER), acquired(DRIVER, "mine", 1)]
GONE = WaitOutcome(Ended.GONE, MINE, "its driver is gone (killed)")
# Its driver was killed before it said anything, and after it was asked.
NEVER_UP = [*STOPPED, declared(MINE), submitted(MINE), failed(None, MINE)]
LOST = [*STOPPED, *ASKED, fenced(DRIVER), aborted("mine", by=ME.by)]


def plan(records: list[Record], version: str = "1", outcome: WaitOutcome | None = None) -> Any:
    return start(snapshot(*records), ME, version, outcome, "why")


def test_a_release_is_declared_submitted_and_waited_for() -> None:
    assert plan([]) == Declare(MINE, "why")
    assert plan(up(DRIVER)[:1]) == Submit(MINE)
    assert plan(up(DRIVER)[:2]) == Wait(StandbyUp(MINE))


def test_then_it_is_appointed_and_that_is_followed() -> None:
    assert appended(plan(up(DRIVER)), "to", "reason") == ("requested", DRIVER, "why")
    assert plan(ASKED) == Wait(RequestOver("mine", 200.0, (DRIVER,), 30.0))
    assert results(plan(TAKEN), "holder", "request") == (MINE, "mine")


def alive(sign: bool) -> WaitOutcome:
    return WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: sign})


def test_a_version_that_runs_already_is_left_alone_once_its_driver_gave_a_sign_of_life() -> None:
    assert plan(RUNNING) == Wait(SignsOfLife({OLD: -1}, 30.0))
    assert results(plan(RUNNING, outcome=alive(True)), "deployment", "holder") == (OLD_DEPLOYMENT, OLD_DEPLOYMENT)


def test_a_version_that_holds_with_a_dead_driver_is_no_success() -> None:
    assert "gives no sign of life" in given_up(plan(RUNNING, outcome=alive(False)))


def test_a_task_that_is_cleared_after_a_later_stop_does_not_claim_that_anybody_runs() -> None:
    stop = [requested("stop", None, by="airflow:other"), released(DRIVER, "stop", None)]
    assert "has been ended since. Nobody holds the stream" in given_up(plan([*TAKEN, *stop]))


def test_another_version_that_runs_is_not_replaced() -> None:
    step = plan(RUNNING, "2")
    assert isinstance(step, GiveUp)
    assert str(step.error).startswith(f"{OLD_DEPLOYMENT} (release 1) holds the stream. Upgrade it instead")
    assert step.error.fields["holder"] == OLD_DEPLOYMENT


def test_what_has_held_is_left_to_the_watch() -> None:
    assert "Start a new run" in given_up(plan([*TAKEN, fenced(DRIVER)]))


def test_a_stopped_stream_is_started_with_a_deployment_of_its_own() -> None:
    assert plan(STOPPED) == Declare(MINE, "why")


def test_a_request_of_this_task_that_was_aborted_is_made_again_while_nobody_holds() -> None:
    assert appended(plan([*ASKED, aborted("mine", by=ME.by)]), "to") == ("requested", DRIVER)


@pytest.mark.parametrize("outcome", [GONE, None], ids=["by the same try", "by the next one"])
def test_a_driver_that_was_killed_before_it_said_anything_is_followed_by_another(outcome: WaitOutcome | None) -> None:
    assert plan(NEVER_UP, outcome=outcome) == Declare(NEXT, "why")
    again = [*NEVER_UP, declared(NEXT)]
    assert plan(again, outcome=outcome) == Submit(NEXT)
    assert plan([*again, submitted(NEXT)], outcome=outcome) == Wait(StandbyUp(NEXT))


def test_a_driver_that_was_lost_after_it_was_asked_is_followed_by_another() -> None:
    """The deployment is ended first: a cluster may start its driver again."""
    assert appended(plan(LOST), "deployment") == ("failed", MINE)
    ended = [*LOST, failed(None, MINE)]
    assert plan(ended) == Declare(NEXT, "why")
    assert appended(plan([*ended, *up(f"{NEXT}.00000001")]), "to") == ("requested", f"{NEXT}.00000001")


def test_one_that_somebody_else_started_meanwhile_is_what_runs() -> None:
    other = "orders-1-dddd.00000007"
    held = [*up(other), requested("other", other), ready("other", other), acquired(other, "other", 2)]
    assert isinstance(plan([*LOST, failed(None, MINE), *held]), Wait)
    assert "Upgrade it instead" in given_up(plan([*LOST, *held], "2"))


@pytest.mark.parametrize(
    "end", [[failed(DRIVER)], [retired(MINE)]], ids=["its own error", "called off, or retired by a stop"]
)
def test_one_that_says_why_it_has_failed_and_one_that_was_called_off_are_not_started_again(end: list[Record]) -> None:
    assert "start a new run; clearing this task changes nothing" in given_up(plan([*STOPPED, *up(DRIVER), *end]))


@pytest.mark.parametrize("records", [NEVER_UP, [*LOST, failed(None, MINE)]], ids=["never up", "lost"])
@pytest.mark.parametrize("outcome", [GONE, None], ids=["by the same try", "by the next one"])
def test_a_stream_that_somebody_has_stopped_since_stays_so(records: list[Record], outcome: WaitOutcome | None) -> None:
    step = plan([*records, stopped("other", by="person:anna")], outcome=outcome)
    assert "is not started again: person:anna has stopped the stream since" in given_up(step)


NAMES = [ME.deployment("orders", "1", lost) for lost in range(TRIES + 1)]
DRIVERS = [f"{name}.00000009" for name in NAMES]


def never_up(name: str) -> list[Record]:
    return [declared(name), submitted(name), failed(None, name)]


def own(*records: Record) -> tuple[str, ...]:
    return own_tries(snapshot(*records).state, ME, "orders", "1")


def test_the_first_one_has_the_id_that_it_always_had() -> None:
    assert own() == (ME.deployment("orders", "1"),)
    assert len(set(NAMES)) == len(NAMES)


@given(st.integers(0, TRIES), st.booleans())
def test_the_next_one_comes_after_all_that_were_lost(lost: int, is_declared: bool) -> None:
    records = [record for name in NAMES[:lost] for record in never_up(name)]
    assert own(*records, *([declared(NAMES[lost])] if is_declared else [])) == tuple(NAMES[: lost + 1])


def test_only_a_driver_that_never_held_and_does_not_say_why_it_ended_is_lost() -> None:
    first, held = up(DRIVERS[0]), [requested("a", DRIVERS[0]), ready("a", DRIVERS[0]), acquired(DRIVERS[0], "a", 1)]
    assert len(own(*first, fenced(DRIVERS[0]), failed(None, NAMES[0]))) == 2
    assert len(own(*first, failed(DRIVERS[0]))) == 1
    assert len(own(*first, retired(NAMES[0]))) == 1
    assert len(own(*first, *held, fenced(DRIVERS[0]), failed(None, NAMES[0]))) == 1


def test_a_deployment_of_which_a_driver_was_fenced_is_ended_first() -> None:
    records = [*up(DRIVERS[0]), fenced(DRIVERS[0])]
    step = end_lost(snapshot(*records), own(*records), None)
    assert appended(step, "deployment", "error") == ("failed", NAMES[0], "")
    assert end_lost(snapshot(*up(DRIVERS[0])), NAMES[:1], None) is None
    assert end_lost(snapshot(declared(NAMES[0])), NAMES[:1], None) is None


def test_a_person_who_says_that_it_is_dead_wants_no_other_one() -> None:
    word = record("fenced", incarnation=DRIVERS[0], reason="dead", evidence={"person": "Anna"}, by="person:anna")
    records = [*up(DRIVERS[0]), word, failed(None, NAMES[0])]
    assert "person:anna has fenced it since" in given_up(end_lost(snapshot(*records), own(*records), None))


def test_a_try_gives_up_after_some_and_the_next_one_begins_with_one_more() -> None:
    gone = WaitOutcome(Ended.GONE, NAMES[-2])
    for lost in range(1, TRIES + 1):
        records = [record for name in NAMES[:lost] for record in never_up(name)]
        found, seen = own(*records), snapshot(*records)
        assert end_lost(seen, found, None) is None
        step = end_lost(seen, found, gone)
        assert isinstance(step, GiveUp) is (lost == TRIES)
    assert isinstance(step, GiveUp)
    assert f"{TRIES} drivers were lost one after the other" in str(step.error)
    assert "clear this task: it starts one more" in str(step.error)
    assert step.log_of == NAMES[-2]
