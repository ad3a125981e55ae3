"""What a log means: holder, epoch, requests, ends; what is unknown or impossible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import IncarnationState, RequestStage, StreamPhase, StreamState
from tests.support import story
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, TWIN, play, record

State, Stage, Phase = IncarnationState, RequestStage, StreamPhase

PHASES = [
    ([], Phase.EMPTY, None),
    (story.STARTED, Phase.EMPTY, None),
    (story.RUNNING[:4], Phase.STARTING, None),
    (story.RUNNING, Phase.RUNNING, OLD),
    (story.REQUESTED, Phase.HANDING_OVER, OLD),
    (story.RELEASED, Phase.HANDING_OVER, None),
    (story.HANDED_OVER, Phase.RUNNING, NEW),
    (story.TAKEN_BACK, Phase.RUNNING, OLD),
    (story.STOPPING, Phase.STOPPING, OLD),
    (story.STOPPED, Phase.STOPPED, None),
    ([*story.STOPPING, story.released(OLD, None, None)], Phase.STOPPED, None),
    ([*story.STOPPING, story.fenced(OLD)], Phase.STOPPED, None),
    ([*story.STOPPING, story.failed(OLD)], Phase.STOPPED, None),
    ([*story.RUNNING, story.released(OLD, None, None)], Phase.DOWN, None),
    ([*story.RUNNING, story.fenced(OLD)], Phase.DOWN, None),
    ([*story.RUNNING, story.failed(OLD)], Phase.FAILED, None),
    ([*story.RUNNING, story.finished(OLD)], Phase.FINISHED, None),
]


@pytest.mark.parametrize(("records", "phase", "holder"), PHASES)
def test_phase_and_holder(records: list[Record], phase: StreamPhase, holder: str | None) -> None:
    state = play(records)
    assert (state.phase, state.holder, state.seq) == (phase, holder, len(records))


def test_a_hand_over_leaves_the_old_one_warm() -> None:
    state = play(story.HANDED_OVER)
    assert (state.epoch, state.requests["up"].stage, state.last_holder) == (2, Stage.DONE, NEW)
    assert [i.id for i in state.standbys()] == [OLD]
    assert (state.incarnations[OLD].epoch, state.incarnations[NEW].epoch) == (1, 2)
    assert state.holding_deployment is not None
    assert state.holding_deployment.id == NEW_DEPLOYMENT


def test_a_take_back_is_a_new_epoch_and_ends_the_request() -> None:
    state = play(story.TAKEN_BACK)
    assert (state.epoch, state.requests["up"].stage, state.open_request) == (2, Stage.TAKEN_BACK, None)


def test_an_interrupted_one_is_to_be_fenced_before_anything_else() -> None:
    state = play(story.INTERRUPTED)
    assert (state.incarnations[OLD].state, state.must_fence) == (State.INTERRUPTED, (OLD,))
    assert play([story.fenced(OLD)], state).must_fence == ()


def test_a_holder_that_failed_inside_a_batch_is_to_be_fenced_too() -> None:
    state = play([*story.RUNNING, story.failed(OLD, boundary="interrupted")])
    assert (state.must_fence, state.deployments[OLD_DEPLOYMENT].ended, state.phase) == ((OLD,), "failed", Phase.FAILED)


def test_a_request_survives_the_loss_of_the_holder_but_a_stop_has_got_what_it_wanted() -> None:
    for end in (story.released(OLD, None, None), story.fenced(OLD), story.failed(OLD), story.finished(OLD)):
        assert play([*story.READY, end]).requests["up"].stage is Stage.READY
        assert play([*story.STOPPING, end]).requests["stop"].stage is Stage.DONE


def test_a_twin_that_fails_does_not_end_the_deployment_of_another() -> None:
    beside_the_holder = play([*story.HANDED_OVER, story.standby(TWIN), story.failed(TWIN)])
    assert beside_the_holder.deployments[NEW_DEPLOYMENT].ended is None
    assert (beside_the_holder.holder, beside_the_holder.incarnations[TWIN].state) == (NEW, State.FAILED)
    refused_beside_a_standby = play([*story.PREPARED, story.failed(TWIN)])
    assert refused_beside_a_standby.deployments[NEW_DEPLOYMENT].ended is None
    assert refused_beside_a_standby.incarnations[TWIN].reason == "it broke"


def test_a_holder_that_fails_ends_its_deployment_with_the_twins_in_it() -> None:
    state = play([*story.HANDED_OVER, story.standby(TWIN), story.failed(NEW)])
    assert (state.deployments[NEW_DEPLOYMENT].ended, state.holder) == ("failed", None)


def test_retiring_ends_the_standbys_of_the_deployment_only() -> None:
    state = play([*story.HANDED_OVER, story.standby(TWIN), story.retired(OLD_DEPLOYMENT)])
    assert state.incarnations[OLD].state is State.RETIRED
    assert [i.id for i in state.standbys()] == [TWIN]


def test_unknown_kinds_are_carried_wherever_they_stand() -> None:
    carried = [r for known in story.HANDED_OVER for r in (known, record("paused", incarnation=OLD))]
    state = play(carried)
    assert state.seq == len(carried)
    assert replace(state, seq=len(story.HANDED_OVER)) == play(story.HANDED_OVER)


def test_folding_in_parts_is_folding_at_once() -> None:
    records = [r.numbered(n) for n, r in enumerate(story.HANDED_OVER, start=1)]
    for cut in range(len(records) + 1):
        assert fold(records[cut:], fold(records[:cut])) == fold(records)


def test_folding_changes_no_state_that_somebody_holds() -> None:
    before = play(story.READY)
    copy = play(story.READY)
    play([story.released(OLD, "up", NEW), story.acquired(NEW, "up", 2)], before)
    assert before == copy


def test_a_record_that_cannot_be_there_is_named() -> None:
    with pytest.raises(StreamError, match=r"Record 4 .*'acquired'.* cannot follow"):
        fold([story.acquired(OLD, "start", 1).numbered(4)], StreamState(seq=3))
