"""Bringing a driver up: it is declared and submitted once, and tried again with pauses while no other one holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.bring_up import bring_up, come_up, next_try, nobody_else_submitted, pause
from airflow_stream_provider.planning.choice import Family
from airflow_stream_provider.planning.conditions import Pause, StandbyUp
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Declare, GiveUp, Later, Step, Submit, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ME, RUNNING, brief, given_up, scene, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    failed,
    fenced,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
    wanted,
)

STAND_BY = wanted("new", "stand_by")
DECLARED = [*RUNNING, STAND_BY, declared(NEW_DEPLOYMENT, "new")]
SUBMITTED = [*DECLARED, submitted(NEW_DEPLOYMENT)]
LOST = WaitOutcome(Ended.GONE, NEW_DEPLOYMENT, "its driver is gone (failed)")
REFUSED = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")


def brings(*records: Record, outcome: WaitOutcome | None = None, **more: Any) -> Step:
    found = scene(*records, outcome=outcome, **more)
    wish = found.state.candidate or found.state.wish
    assert wish is not None
    return bring_up(found, wish)


def comes(*records: Record, outcome: WaitOutcome | None = None, **more: Any) -> Step:
    found = scene(*records, outcome=outcome, **more)
    return come_up(found, found.state.deployments[NEW_DEPLOYMENT])


def test_it_is_declared_once_with_what_was_wished() -> None:
    wish = wanted("new", "stand_by", policy={"lease_seconds": 7.0}, rewind={"to": 1.0, "queries": {}})
    step = brings(*RUNNING, wish)
    assert isinstance(step, Declare)
    same = ("release", "policy", "rewind")
    assert {name: step.fields[name] for name in same} == {name: wish[name] for name in same}
    assert (step.fields["family"], "again" in step.fields, step.fields["reason"]) == ("new", False, "a person wants it")
    assert step.deployment.startswith("orders-1-")
    assert brings(*RUNNING, wish) == step, "the same however often it is tried"
    assert brings(*RUNNING, wish, record("noted")) != step, "another one, once somebody has written"


def test_a_release_that_is_brought_back_leaves_out_what_the_stream_does_now() -> None:
    listed = wanted("new", "stand_by", policy={"lease_seconds": 7.0, "skip": ["orders-3@1@5"]})
    story = [*RUNNING, listed, *up(NEW, "new"), wanted("back", family="old", back=True), fenced(OLD)]
    found = scene(*story)
    assert found.state.wish is not None
    step = next_try(found, found.state.wish, Family("old"))
    assert isinstance(step, Declare)
    assert step.fields["policy"] == {"skip": ["orders-3@1@5"]}


def test_only_the_first_deployment_of_a_family_reads_records_again_unless_it_never_held() -> None:
    wish = wanted("new", "stand_by", rewind={"to": 1.0, "queries": {}})
    lost = [*RUNNING, wish, *up(NEW, "new"), fenced(NEW), failed(None, NEW_DEPLOYMENT)]
    again = brings(*lost)
    assert isinstance(again, Declare)
    assert (again.fields["again"], "rewind" in again.fields) == (NEW_DEPLOYMENT, True)
    held = [*RUNNING, wish, *up(NEW, "new"), wanted("t", family="new"), requested("r", NEW), ready("r", NEW)]
    held += [released(OLD, "r", NEW), acquired(NEW, "r", 2), failed(NEW)]
    found = scene(*held)
    assert found.state.wish is not None
    step = next_try(found, found.state.wish, Family("new"))
    assert isinstance(step, Declare)
    assert "rewind" not in step.fields


def test_a_declared_deployment_is_submitted_by_whoever_declared_it_or_later_by_anybody() -> None:
    mine = [*DECLARED[:-1], declared(NEW_DEPLOYMENT, "new", by=ME.by)]
    assert comes(*mine) == Submit(NEW_DEPLOYMENT)
    assert comes(*DECLARED) == Wait(Pause(NEW_DEPLOYMENT, 120.0))
    for at in (161.0, 39.0):
        assert comes(*DECLARED, at=at) == Submit(NEW_DEPLOYMENT), "a clock may be ahead"
    found = scene(*DECLARED)
    told = replace(found.snapshot, heartbeats={NEW: Heartbeat(counter=1, submission="driver-7")})
    step = come_up(replace(found, snapshot=told), found.state.deployments[NEW_DEPLOYMENT])
    assert step == Submit(NEW_DEPLOYMENT), "it is recorded"
    assert comes(*SUBMITTED) == Wait(StandbyUp(NEW_DEPLOYMENT))


def test_what_was_never_sent_is_submitted_whoever_sees_it() -> None:
    """The task that wrote its id into the log may have died before it sent it."""
    unsent = WaitOutcome(Ended.UNSENT, NEW_DEPLOYMENT, "its id is reserved")
    assert comes(*SUBMITTED, outcome=unsent) == Submit(NEW_DEPLOYMENT)
    assert comes(*SUBMITTED, outcome=replace(unsent, subject="another")) == Wait(StandbyUp(NEW_DEPLOYMENT))
    reserved = {NEW_DEPLOYMENT: DriverFacts("application_1", DriverState.RESERVED)}
    assert comes(*SUBMITTED, drivers=reserved) == Submit(NEW_DEPLOYMENT)


def test_a_driver_that_runs_and_says_nothing_is_waited_for_with_a_look_at_its_log() -> None:
    mute = WaitOutcome(Ended.EXPIRED, NEW_DEPLOYMENT, "its driver has not said anything yet")
    assert comes(*SUBMITTED, outcome=mute) == Wait(StandbyUp(NEW_DEPLOYMENT), log_of=NEW_DEPLOYMENT)


def test_only_a_deployment_that_was_declared_just_now_is_submitted_without_a_look_at_the_cluster() -> None:
    for at, just, alone in ((105.0, True, True), (105.0, False, False), (110.0, True, False)):
        assert nobody_else_submitted(snapshot(*DECLARED, at=at), NEW_DEPLOYMENT, just) is alone


@pytest.mark.parametrize(
    ("records", "outcome", "step"),
    [
        ([*RUNNING, STAND_BY], None, "declare new"),
        (SUBMITTED, None, "wait StandbyUp"),
        (SUBMITTED, LOST, "failed new"),
        ([*SUBMITTED, failed(None, NEW_DEPLOYMENT)], None, "giveup"),
        ([*SUBMITTED, REFUSED], None, "giveup"),
        ([*SUBMITTED, retired(NEW_DEPLOYMENT)], None, "giveup"),
        ([*SUBMITTED, standby(NEW), fenced(NEW)], None, "failed new"),
        ([*SUBMITTED, standby(NEW), fenced(NEW), failed(None, NEW_DEPLOYMENT)], None, "declare new"),
        ([*SUBMITTED, REFUSED, wanted("more", "stand_by", family="new")], None, "declare new"),
        ([*SUBMITTED, retired(NEW_DEPLOYMENT), wanted("more", "stand_by", family="new")], None, "declare new"),
    ],
    ids=[
        "nothing yet", "under way", "it never came up", "without a word", "it says why", "called off",
        "its driver was lost", "and it is ended", "wished anew", "called off before",
    ],
)  # fmt: skip
def test_what_comes_of_it_while_another_one_holds(
    records: list[Record], outcome: WaitOutcome | None, step: str
) -> None:
    assert brief(brings(*records, outcome=outcome)) == step


def test_a_driver_that_died_without_a_word_has_a_log_and_one_that_said_why_needs_none() -> None:
    for end, log_of in ((failed(None, NEW_DEPLOYMENT), NEW_DEPLOYMENT), (REFUSED, "")):
        step = brings(*SUBMITTED, end)
        assert isinstance(step, GiveUp)
        assert step.log_of == log_of
        assert "Correct it and start a new run" in str(step.error)


def test_the_error_that_the_driver_recorded_is_told_once() -> None:
    def told(reason: str, error: str) -> str:
        refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason=reason, error=error)
        return given_up(brings(*SUBMITTED, refusal))

    assert "failed: The script failed: ValueError: no topic. " in told("The script failed", "ValueError: no topic")
    assert told("No topic. Make it.", "SpecError: No topic.").count("No topic.") == 1


def test_after_some_that_were_lost_it_is_given_up() -> None:
    story = [*RUNNING, STAND_BY]
    for number in range(3):
        assert isinstance(brings(*story), Declare)
        name = f"o-{number}.0000000a"
        story += [declared(f"o-{number}", "new"), standby(name), fenced(name), failed(None, f"o-{number}")]
    step = brings(*story)
    assert isinstance(step, GiveUp)
    assert "3 drivers were lost one after the other before they held the stream, the last one of o-2" in str(step.error)
    assert step.log_of == "o-2"


# -- without a holder --------------------------------------------------------------------------------------------------

DOWN = [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT)]


def again(number: int, at: float, *end: Record) -> list[Record]:
    return [declared(f"o-{number}", "old", again=OLD_DEPLOYMENT, at=at), *end]


def came_to_hold(number: int, at: float, *end: Record) -> list[Record]:
    name = driver_of(number)
    begins = replace(standby(name), fields={**standby(name).fields, "queries": [{"name": "a"}, {"name": "b"}]})
    ask = [requested(name, name), ready(name, name), acquired(name, name, 2 + number)]
    return [*again(number, at), submitted(f"o-{number}"), begins, *ask, *end]


def driver_of(number: int) -> str:
    return f"o-{number}.0000000a"


def lost(number: int) -> list[Record]:
    return [fenced(driver_of(number)), failed(None, f"o-{number}")]


def step_at(story: list[Record], at: float, beats: dict[str, Heartbeat] | None = None) -> type:
    found = scene(*story, at=at)
    found = replace(found, snapshot=replace(found.snapshot, heartbeats=beats or {}))
    assert found.state.wish is not None
    return type(next_try(found, found.state.wish, Family("old")))


def test_the_pauses_between_failed_tries_grow_to_five_minutes_and_no_further() -> None:
    story, at = list(DOWN), 100.0
    for number, seconds in enumerate((60, 120, 240, 300, 300, 300)):
        assert step_at(story, at) is Declare
        story += again(number, at, failed(None, f"o-{number}"))
        assert [step_at(story, at + seconds - 1), step_at(story, at + seconds)] == [Later, Declare]
        at += seconds
    assert pause(snapshot(*story, at=at), "old")[0] == 6
    assert pause(snapshot(*story, at=at + 3601.0), "old") == (0, 0.0), "that was long ago"


def test_the_pause_says_what_failed_and_where_to_look() -> None:
    found = scene(*DOWN, *again(1, 100.0, failed(None, "o-1")))
    assert found.state.wish is not None
    step = next_try(found, found.state.wish, Family("old"))
    assert isinstance(step, Later)
    assert (step.until, step.deployment, step.lost, step.log_of) == (160.0, "o-1", False, "o-1")
    assert "failed each time, last as o-1: it broke: Boom. The next try comes in 50 s." in str(step.error)


def test_a_machine_whose_clock_is_ahead_blocks_nobody() -> None:
    assert step_at([*DOWN, *again(1, 86_500.0, failed(None, "o-1"))], 110.0) is Declare


def test_errors_and_lost_machines_are_counted_apart() -> None:
    errors = [*DOWN]
    for number in range(3):
        errors += came_to_hold(number, 200.0 + 300.0 * number, failed(driver_of(number)))
    assert [step_at(errors, 800.0 + 239.0), step_at(errors, 800.0 + 241.0)] == [Later, Declare]
    then = [*errors, *came_to_hold(3, 1100.0, *lost(3))]
    assert [step_at(then, 1100.0 + 59.0), step_at(then, 1100.0 + 61.0)] == [Later, Declare]
    # And the other way round: that one does not lengthen the pause after the next error.
    error = [*then, *came_to_hold(4, 1400.0, failed(driver_of(4)))]
    assert [step_at(error, 1400.0 + 299.0), step_at(error, 1400.0 + 301.0)] == [Later, Declare]


@pytest.mark.parametrize(
    ("a", "b", "step"),
    [(7, 1, Declare), (7, 0, Later), (7, None, Later), (None, None, Later)],
    ids=["proven", "idle", "half", "unproven"],
)
def test_only_what_follows_a_holder_that_has_committed_counts_as_a_try(
    a: int | None, b: int | None, step: type
) -> None:
    """Found by a chaos run: after three killed holders a stream stayed down for five minutes, and nothing was wrong."""
    killed = [*DOWN, *(r for n in range(3) for r in came_to_hold(n, 200.0 + 100 * n, *lost(n)))]
    progress = (QueryProgress(name, batch=n, commits=(Commit(1.0),) if n else ()) for name, n in (("a", a), ("b", b)))
    beats = {driver_of(2): Heartbeat(counter=9, epoch=4, queries=tuple(progress))}
    assert step_at(killed, 410.0, beats) is step


def test_what_ran_well_until_another_release_took_over_comes_back_at_once() -> None:
    tries = [*DOWN, *(r for n in (1, 2, 3) for r in again(n, 200.0 + 100 * n, failed(None, f"o-{n}")))]
    held = [*tries, *came_to_hold(0, 600.0), wanted("new", "stand_by"), *up(NEW, "new")]
    ask = [wanted("take", family="new", approved="x"), requested("m", NEW, wish="take"), ready("m", NEW)]
    for committed, step in ((True, Declare), (False, Later)):
        took = [released(driver_of(0), "m", NEW, committed=committed), acquired(NEW, "m", 3), retired("o-0")]
        assert step_at([*held, *ask, *took, failed(NEW, committed=False)], 610.0) is step


@pytest.mark.parametrize(
    ("end", "ran", "step"),
    [(failed, 20.0, Later), (failed, 301.0, Declare), (fenced, 20.0, Declare)],
    ids=["fails soon each time", "a long good run", "its machine died"],
)
def test_a_commit_proves_a_release_unless_it_fails_soon_after(
    end: Callable[[str], Record], ran: float, step: type
) -> None:
    story = list(DOWN)
    for number in range(3):
        ends = lost(number) if end is fenced else [end(driver_of(number))]
        story += came_to_hold(number, 200.0 + 400.0 * number, *ends)
    committed = tuple(QueryProgress(name, batch=7, commits=(Commit(1.0),)) for name in ("a", "b"))
    beats = {driver_of(2): Heartbeat(counter=9, epoch=4, at=1000.0 + ran, started_at=1000.0, queries=committed)}
    assert step_at(story, 1000.0 + 100.0, beats) is step
