"""What is read from a state; how records lead to one is in test_fold.py."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import pytest

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    HoldEnd,
    Incarnation,
    IncarnationState,
    RequestStage,
    StreamPhase,
    StreamState,
)
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    TWIN,
    acquired,
    fenced,
    following,
    play,
    ready,
    requested,
    standby,
    submitted,
    wanted,
)
from tests.support.there import there


@pytest.mark.parametrize("kind", [IncarnationState, RequestStage, StreamPhase, Goal])
def test_states_say_what_they_are(kind: type[Enum]) -> None:
    said = [state.description for state in kind]  # type: ignore[attr-defined]
    assert all(sentence.endswith(".") for sentence in said)
    assert len(set(said)) == len(said)


def test_a_driver_may_hold_later_only_if_it_has_not_ended() -> None:
    living = {state for state in IncarnationState if not state.terminal}
    assert living == {IncarnationState.STANDBY, IncarnationState.HOLDER}


def test_a_request_is_open_until_it_is_done_taken_back_or_aborted() -> None:
    closed = {stage for stage in RequestStage if not stage.open}
    assert closed == {RequestStage.DONE, RequestStage.TAKEN_BACK, RequestStage.ABORTED}


# With no wish, with one from before the end of the last hold, and with one since.
@pytest.mark.parametrize(
    ("epoch", "last_end", "phases"),
    [
        (0, None, "empty down down"),
        (1, None, "down down down"),
        (1, HoldEnd.RELEASED, "down down down"),
        (1, HoldEnd.FENCED, "down down down"),
        (1, HoldEnd.FAILED, "failed failed down"),
        (1, HoldEnd.FINISHED, "finished finished down"),
    ],
)
def test_the_phase_while_nobody_holds_is_how_the_last_hold_ended(
    epoch: int, last_end: HoldEnd | None, phases: str
) -> None:
    bare = StreamState(epoch=epoch, last_end=last_end, held_to=9 * epoch)
    driver = Incarnation("o-1.00000001", "o-1", IncarnationState.FAILED, epoch=epoch)
    deployment = Deployment("o-1", Release("1", "0" * 64), Record("declared", {"family": "w"}))
    known = replace(bare, incarnations={driver.id: driver}, deployments={"o-1": deployment})
    wishes = (Wish(Record("wanted", {"wish": "w", "goal": "hold"}, seq=seq), "w") for seq in (5, 15))
    found = [bare.phase.value, *(replace(known, wish=wish).phase.value for wish in wishes)]
    assert " ".join(found) == phases


@pytest.mark.parametrize("goal", ["stop", "leave"])
@pytest.mark.parametrize("last_end", [None, *HoldEnd])
def test_what_is_to_rest_is_stopped_however_it_ended(goal: str, last_end: HoldEnd | None) -> None:
    wish = Wish(Record("wanted", {"wish": "w", "goal": goal}, seq=5))
    found = StreamState(epoch=1, last_end=last_end, held_to=9, wish=wish)
    assert (found.phase, found.resting) == (StreamPhase.STOPPED, True)


def test_an_open_request_says_more_than_the_holder() -> None:
    assert play(RUNNING).phase is StreamPhase.RUNNING
    assert play(REQUESTED).phase is StreamPhase.HANDING_OVER
    assert play(STOPPING).phase is StreamPhase.STOPPING
    assert play([*STARTED, requested("start", OLD)]).phase is StreamPhase.STARTING


def test_only_the_newest_request_can_be_open() -> None:
    assert StreamState().open_request is None
    assert play(HANDED_OVER).open_request is None
    request = there(play(REQUESTED).open_request)
    assert (request.id, request.source, request.to) == ("up", OLD, NEW)
    assert list(play(REQUESTED).requests) == ["start", "up"]


def test_the_deployment_that_holds() -> None:
    assert there(play(HANDED_OVER).holding_deployment).id == NEW_DEPLOYMENT
    assert play(STARTED).holding_deployment is None
    assert play(STOPPED).holding_deployment is None


def test_who_stopped_inside_a_batch_is_to_be_fenced_until_that_is_done() -> None:
    assert play(INTERRUPTED).must_fence == (OLD,)
    assert play([*INTERRUPTED, fenced(OLD)]).must_fence == ()
    assert play(HANDED_OVER).must_fence == ()


def test_drivers_are_listed_oldest_first() -> None:
    state = play([*PREPARED, standby(TWIN)])
    assert [each.id for each in state.standbys()] == [NEW, TWIN]
    assert [each.id for each in state.of_deployment(NEW_DEPLOYMENT)] == [NEW, TWIN]
    assert [each.id for each in state.of_deployment(OLD_DEPLOYMENT)] == [OLD]
    assert state.of_deployment("none") == ()


def test_a_deployment_has_held_once_a_driver_of_it_has_acquired() -> None:
    for records, held in ((STARTED, []), (PREPARED, [OLD_DEPLOYMENT]), (HANDED_OVER, [OLD_DEPLOYMENT, NEW_DEPLOYMENT])):
        state = play(records)
        assert [name for name in state.deployments if state.has_held(name)] == held
    assert not state.has_held("none")


def test_a_deployment_follows_a_job_until_it_has_held() -> None:
    """Later its own stream writes the logs, and so it does for one that runs the same release again."""
    first = following(OLD_DEPLOYMENT, "adopt")
    up = [wanted("adopt", policy={"adopts": True}), first, submitted(OLD_DEPLOYMENT), standby(OLD)]
    assert play(up).deployments[OLD_DEPLOYMENT].adopts
    gone = {"job": "driver-1"}
    held = play([*up, requested("start", OLD, evidence=gone), ready("start", OLD), acquired(OLD, "start", 1)])
    assert not held.deployments[OLD_DEPLOYMENT].adopts
    again = replace(first, fields={**first.fields, "deployment": NEW_DEPLOYMENT, "again": OLD_DEPLOYMENT})
    assert not play([again], held).deployments[NEW_DEPLOYMENT].adopts
    assert not play(RUNNING).deployments[OLD_DEPLOYMENT].adopts
