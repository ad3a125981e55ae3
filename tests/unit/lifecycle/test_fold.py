"""What a log means: holder, epoch, requests, ends; what is unknown or impossible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.fold import ILLEGAL_NAMED, fold
from airflow_stream_provider.lifecycle.proof import SEVERAL, Proof
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import (
    HoldEnd,
    IllegalRecord,
    IncarnationState,
    RequestStage,
    StreamPhase,
)
from airflow_stream_provider.lifecycle.wish import Goal
from tests.support import snapshots, story
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    TAKEN_BACK,
    TWIN,
    declared,
    failed,
    fenced,
    finished,
    play,
    record,
    released,
    requested,
    wanted,
)
from tests.support.there import there

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


def test_a_declared_kill_changes_nothing_but_what_is_known_of_the_driver() -> None:
    before, after = play(story.RUNNING), play([*story.RUNNING, story.fencing(OLD, "it hangs")])
    assert after.incarnations[OLD].fencing == "it hangs"
    assert after.phase is before.phase is Phase.RUNNING
    assert after.holder == OLD


@pytest.mark.parametrize("end", [story.failed(OLD), story.fenced(OLD), story.finished(OLD)])
def test_what_nobody_holds_can_be_stopped_and_started_again(end: Record) -> None:
    prepared = [*story.PREPARED, end, wanted("enough", "stop", by="a person")]
    state = play(prepared)
    assert (state.phase, state.last_end, state.last_holder) == (Phase.STOPPED, HoldEnd.STOPPED, OLD)
    asked = [*prepared, wanted("go")]
    assert play(asked).phase is Phase.DOWN
    started = play([*asked, story.requested("go", NEW), story.ready("go", NEW), story.acquired(NEW, "go", 2)])
    assert started.phase is Phase.RUNNING


@pytest.mark.parametrize("end", [released(OLD, None, None), failed(OLD), fenced(OLD), finished(OLD)])
def test_a_holder_that_was_to_stop_is_stopped_however_its_hold_ended(end: Record) -> None:
    state = play([*story.RUNNING, wanted("rest", "stop"), end])
    assert (state.phase, state.last_end) == (Phase.STOPPED, HoldEnd.STOPPED)


def test_a_stop_of_what_never_ran_ends_nothing() -> None:
    state = play([wanted("enough", "stop")])
    assert (state.phase, state.last_end) == (Phase.STOPPED, None)


# What governs, what is to stand by, and what has held and was to until then.
WISHES: list[tuple[list[Record], str, str, str]] = [
    ([], "", "", ""),
    ([wanted("a")], "a", "", ""),
    ([wanted("a"), wanted("b", "stand_by")], "a", "b", ""),
    ([wanted("a"), wanted("b", "stand_by"), wanted("c", "stand_by")], "a", "c", ""),
    ([wanted("a"), wanted("b", "stand_by"), wanted("take", family="b")], "take", "", ""),
    ([*snapshots.RUNNING, wanted("b", "stand_by"), wanted("take", family="b")], "take", "", "old"),
    ([*snapshots.RUNNING, wanted("b"), wanted("more", family="b")], "more", "", "old"),
    ([*snapshots.RUNNING, wanted("b"), wanted("c")], "c", "", "old"),
    ([*snapshots.UPGRADED, wanted("back", family="old", back=True)], "back", "", "new"),
    ([wanted("a"), wanted("b"), wanted("rest", "stop")], "rest", "", ""),
    ([wanted("a"), wanted("rest", "leave"), wanted("b")], "b", "", ""),
    ([wanted("a"), wanted("rest", "stop"), wanted("b", "stand_by")], "rest", "b", ""),
    ([wanted("b", "stand_by")], "", "b", ""),
]


@pytest.mark.parametrize(("records", "governs", "candidate", "before"), WISHES)
def test_the_later_wish_counts(records: list[Record], governs: str, candidate: str, before: str) -> None:
    state = play(records)
    assert (state.wish.id if state.wish else "", state.candidate.id if state.candidate else "") == (governs, candidate)
    assert (state.wish.before if state.wish else "") == before
    assert list(state.wishes) == [one["wish"] for one in records if one.kind == "wanted"]
    assert state.wish is None or not state.wish.goal.rest or not state.wish.family


def test_a_wish_says_what_its_record_does() -> None:
    flags: dict[str, Any] = {"alone": True, "back": True, "approved": "by Ann", "odd": 7}
    fields = {**flags, "job": "driver-1", "confirmed_by": "Ann"}
    wish = there(play([wanted("a", at=7.0, by="person:ann", **fields)]).wish)
    assert (wish.id, wish.goal, wish.family, wish.seq, wish.at) == ("a", Goal.HOLD, "a", 1, 7.0)
    assert (wish.alone, wish.back, wish.approved, wish.job, wish.confirmed_by) == (
        True,
        True,
        "by Ann",
        "driver-1",
        "Ann",
    )
    assert (wish.option("odd"), wish.option("none", 3)) == (7, 3)
    assert wish.author == "person:ann (a person wants it)"
    plain = there(play([wanted("a", "stop", by="person:ann", reason="person:ann")]).wish)
    assert (plain.author, plain.alone, plain.back, plain.approved, plain.job) == ("person:ann", False, False, "", "")


def test_a_wish_is_current_until_one_for_something_else_follows() -> None:
    story_ = [wanted("a"), wanted("b", "stand_by"), wanted("take", family="b"), wanted("back", family="a")]
    rest = [wanted("s", "stop"), wanted("l", "leave")]
    current = {
        1: ["a"],
        2: ["a", "b"],
        3: ["b", "take"],
        4: ["a", "back"],
        5: ["s"],
        6: ["s", "l"],
    }
    for count, names in current.items():
        state = play([*story_, *rest][:count])
        assert [name for name, wish in state.wishes.items() if state.is_current(wish)] == names


def test_a_stop_calls_off_the_follower_of_a_job_while_no_driver_holds() -> None:
    assert play(story.JOB_ENDING).job is not None
    assert play([*story.JOB_ENDING, wanted("w", "stop")]).job is None
    assert play([*story.JOB_ENDING, wanted("w")]).job is not None


def test_a_holder_that_was_told_to_stop_for_a_wish_that_was_replaced_leaves_the_stream_down() -> None:
    stopping = [*story.RUNNING, wanted("w", alone=True), requested("s", None, wish="w")]
    for end in (released(OLD, "s", None), finished(OLD), fenced(OLD)):
        assert play([*stopping, end]).phase is Phase.DOWN
    assert play([*story.STOPPING, wanted("w"), released(OLD, "stop", None)]).phase is Phase.DOWN


def test_a_script_that_ends_by_itself_rests_unless_another_release_is_to_hold() -> None:
    first = [wanted("a"), *of_family(story.RUNNING, "a")]
    assert play([*first, finished(OLD)]).phase is Phase.FINISHED
    assert play([*first, finished(OLD), wanted("b")]).phase is Phase.DOWN
    assert play([*first, wanted("b"), finished(OLD)]).phase is Phase.DOWN
    assert play([*first, wanted("b"), failed(OLD)]).phase is Phase.FAILED
    assert play([*first, wanted("b", "stand_by"), finished(OLD)]).phase is Phase.FINISHED


def of_family(records: list[Record], family: str) -> list[Record]:
    """The same records, with deployments that serve a family of wishes."""
    return [replace(r, fields={**r.fields, "family": family}) if r.kind == "declared" else r for r in records]


def test_deployments_serve_families() -> None:
    state = play([wanted("a"), wanted("b"), declared("o-1", "a"), declared("o-2", "b"), declared("o-3", "a")])
    assert [each.id for each in state.family("a")] == ["o-1", "o-3"]
    assert (state.family(""), state.akin("o-1", "o-3"), state.akin("o-1", "o-2")) == ((), True, False)
    assert not state.akin("o-1", "none")
    assert (state.has_run("a"), play([wanted("a"), *of_family(story.RUNNING, "a")]).has_run("a")) == (False, True)


def test_only_what_is_declared_after_a_wish_to_be_alone_fulfils_it() -> None:
    state = play([wanted("a"), declared("o-1", "a"), wanted("b", family="a", alone=True), declared("o-2", "a")])
    wishes = state.wishes["a"], state.wishes["b"]
    found = [[each.fulfils(wish) for wish in wishes] for each in state.deployments.values()]
    assert found == [[True, False], [True, True]]
    assert not state.deployments["o-1"].fulfils(there(play([wanted("s", "stop")]).wish))


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


def test_where_the_queries_stopped_is_known_until_a_hold_ends_otherwise() -> None:
    by_stop = play([*story.RUNNING, story.released(OLD, None, None)])
    assert by_stop.ends == {"a": {"batch": 7}}
    assert play([story.requested("again", OLD), story.ready("again", OLD)], by_stop).ends == by_stop.ends
    handed_over = play(story.HANDED_OVER)
    assert handed_over.ends == handed_over.requests["up"].ends == {"a": {"batch": 7}}
    for end in (story.fenced(NEW), story.failed(NEW), story.finished(NEW), story.failed(NEW, ends=[7])):
        assert play([end], handed_over).ends == {}
    said = {"a": {"batch": 9}}
    assert play([story.failed(NEW, ends=said)], handed_over).ends == said
    assert play([story.record("finished", incarnation=NEW, ends=said)], handed_over).ends == said
    assert play([story.failed(TWIN)], handed_over).ends == handed_over.ends
    assert play(story.RUNNING).ends == {}


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
    plain = play(story.HANDED_OVER)
    assert (state.seq, state.illegal_count) == (len(carried), 0)
    assert (state.holder, state.epoch, state.requests) == (plain.holder, plain.epoch, plain.requests)
    assert {name: i.state for name, i in state.incarnations.items()} == {
        name: i.state for name, i in plain.incarnations.items()
    }


def test_folding_in_parts_is_folding_at_once() -> None:
    records = [r.numbered(n) for n, r in enumerate(story.HANDED_OVER, start=1)]
    for cut in range(len(records) + 1):
        assert fold(records[cut:], fold(records[:cut])) == fold(records)


def test_folding_changes_no_state_that_somebody_holds() -> None:
    before = play(story.READY)
    copy = play(story.READY)
    play([story.released(OLD, "up", NEW), story.acquired(NEW, "up", 2)], before)
    assert before == copy


ILLEGAL = [
    (story.acquired(NEW, "up", 2), "one-holder"),
    (story.fenced(OLD, evidence=""), "say-why"),
    (story.fenced(OLD).numbered(0, "the nonce of another record"), "chain"),
    (record("failed", deployment=NEW_DEPLOYMENT, incarnation=TWIN, reason="it broke", queries=[{"name": None}]), None),
    (Record.read(b'{"kind": "acqui', 0), "readable"),
    (Record.read(b"[" * 100_000, 0), "readable"),
]


@pytest.mark.parametrize(("illegal", "rule"), ILLEGAL)
def test_an_illegal_record_is_named_and_never_obeyed(illegal: Record, rule: str | None) -> None:
    before = play(story.PREPARED)
    seq = before.seq + 1
    after = fold([illegal.numbered(seq, illegal.previous)], before)
    assert after.illegal == (IllegalRecord(seq, illegal.kind, rule or "sound-fields"),)
    assert replace(after, illegal=(), illegal_count=0) == replace(before, seq=seq, nonce=illegal.nonce)
    # What follows it is as legal as without it.
    assert play([story.requested("up", NEW)], after).open_request == play(story.REQUESTED).open_request


def test_only_the_last_illegal_records_are_named_and_all_are_counted() -> None:
    state = play(story.RUNNING)
    many = [Record("acquired", seq=state.seq + n) for n in range(1, ILLEGAL_NAMED + 8)]
    state = fold(many, state)
    assert (state.illegal_count, len(state.illegal)) == (ILLEGAL_NAMED + 7, ILLEGAL_NAMED)
    assert state.illegal[-1] == IllegalRecord(state.seq, "acquired", "complete")


def test_the_kind_of_an_illegal_record_cannot_do_anything_to_a_terminal() -> None:
    escape = Record("\x1b[2J\n\u202e" + "x" * 100, seq=1, previous="elsewhere")
    assert fold([escape]).illegal[0].kind == "?[2J??" + "x" * 34


def test_a_record_follows_the_one_before_it_or_names_none() -> None:
    first = record("noted").numbered(1)
    for previous in ("", first.nonce):
        assert fold([first, record("noted").numbered(2, previous)]).illegal_count == 0
    assert fold([record("noted").numbered(1, "something")]).illegal[0].rule == "chain"


def test_who_held_before_a_deployment_first_did() -> None:
    state = play([*story.TAKEN_BACK, story.requested("again", NEW), story.ready("again", NEW)])
    state = play([story.released(OLD, "again", NEW), story.acquired(NEW, "again", 3)], state)
    found = {name: deployment.previous for name, deployment in state.deployments.items()}
    assert found == {OLD_DEPLOYMENT: "", NEW_DEPLOYMENT: OLD_DEPLOYMENT}
    assert play(story.PREPARED).deployments[NEW_DEPLOYMENT].previous is None


def proof(*ends: tuple[str, bool | None]) -> Proof:
    found = Proof()
    for kind, committed in ends:
        found = found.after(kind, committed)
    return found


@pytest.mark.parametrize(
    ("ends", "never"),
    [
        ([], False),
        ([("failed", False)], True),
        ([("failed", True)], False),
        ([("failed", None)] * 99, False),
        ([("fenced", False)] * (SEVERAL - 1), False),
        ([("fenced", False)] * SEVERAL, True),
        ([("released", False), ("finished", False)] * 99, False),
        ([("released", False), ("failed", False)], True),
        ([("fenced", None), ("failed", False)], False),
        ([("fenced", None), *[("failed", False)] * SEVERAL], True),
        ([("released", True), *[("failed", False)] * 99], False),
        ([("failed", False)] * 99 + [("released", True)], False),
        ([("failed", False), ("fenced", False)], True),
    ],
)
def test_an_older_release_follows_one_that_never_commits(ends: list[tuple[str, bool | None]], never: bool) -> None:
    assert proof(*ends).never is never


def test_what_is_no_truth_value_is_not_known() -> None:
    assert Proof().after("failed", "yes") == Proof(committed=None)


def test_the_newest_holder_of_a_release_tells_it_of_all() -> None:
    assert play(RUNNING).incarnations[OLD].proof == Proof()
    assert play([*RUNNING, finished(OLD)]).incarnations[OLD].proof == Proof(committed=None)
    state = play([*HANDED_OVER, failed(NEW, committed=False)])
    assert state.incarnations[NEW].proof == Proof(failed=True, in_vain=1)
    assert state.incarnations[OLD].proof == Proof(committed=None)


def test_one_that_holds_again_has_what_it_has_shown_before() -> None:
    story = [*TAKEN_BACK[:-2], released(OLD, "up", NEW, committed=True), TAKEN_BACK[-1], fenced(OLD, committed=False)]
    assert play(story).incarnations[OLD].proof == Proof(committed=True)
