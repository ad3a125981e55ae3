"""What is left out of a state changes no decision, and a state does not grow with the age of its stream."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from airflow_stream_provider.lifecycle import saved_state
from airflow_stream_provider.lifecycle.errors import RuleBroken
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.saved_state import dump, load
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Step, TaskIdentity
from tests.support import story
from tests.support.story import hash_of, record

KEPT = 5
LIMITS = ("DEPLOYMENTS_KEPT", "INCARNATIONS_KEPT", "REQUESTS_KEPT", "WISHES_KEPT")
ME = TaskIdentity("orders__revive", "run", "revive")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LIMITS:
        monkeypatch.setattr(saved_state, name, KEPT)
    monkeypatch.setattr(saved_state, "PRUNE_EVERY", 3)


def life(length: int) -> Iterator[Record]:
    """Releases that take over from each other, crash and are started again, with relaunches beside them."""
    chance = random.Random(7)
    epoch, holder = 0, ""
    for number in range(length):
        deployment = f"orders-{number}"
        release = {"version": str(number), "hash": hash_of(f"release-{number // 2 - chance.randrange(3)}")}
        wish = f"wish-{number}"
        if chance.random() < 0.2:
            yield story.wanted(f"stop-{number}", "stop")
        yield story.wanted(wish, chance.choice(["hold", "stand_by"]), release=release)
        yield record("declared", deployment=deployment, release=release, family=wish)
        name = f"{deployment}.00000001"
        if chance.random() < 0.2:
            yield record("retired", deployment=deployment)
            continue
        yield story.standby(name)
        for twin in range(chance.randrange(3)):
            yield story.failed(f"{deployment}.{twin + 16:08x}")
        if chance.random() < 0.5:
            yield story.wanted(f"take-{number}", family=wish)
        yield story.requested(f"ask-{number}", name, wish=wish)
        yield story.ready(f"ask-{number}", name)
        if holder:
            yield story.released(holder, f"ask-{number}", name)
        epoch += 1
        yield story.acquired(name, f"ask-{number}", epoch)
        if holder:
            yield record("retired", deployment=holder.partition(".")[0])
        holder = name
        if chance.random() < 0.5:
            end = chance.choice(["completed", "interrupted"])
            yield story.failed(name, boundary=end)
            if end == "interrupted":
                yield story.fenced(name)
            holder = ""


def next_step(state: StreamState, lives: dict[str, bool | None]) -> tuple[type[Step], str]:
    step = reconcile(Scene(Snapshot("orders", 100.0, state), ME, lives=lives))
    return type(step), repr(step)


def test_no_decision_goes_by_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    state = whole = StreamState()
    for seq, one in enumerate(life(120), start=1):
        state = fold([one.numbered(seq)], state)
        with monkeypatch.context() as everything:
            for name in LIMITS:
                everything.setattr(saved_state, name, 10**6)
            whole = fold([one.numbered(seq)], whole)
        assert (state.holder, state.epoch, state.phase) == (whole.holder, whole.epoch, whole.phase)
        assert (state.open_request, state.must_fence) == (whole.open_request, whole.must_fence)
        assert (state.illegal, state.last_holder) == ((), whole.last_holder)
        live = [d.id for d in whole.deployments.values() if not d.ended]
        assert [d.id for d in state.deployments.values() if not d.ended] == live
        named = {name for r in list(state.requests.values())[-KEPT:] for name in (r.to, r.source) if name}
        assert named <= set(state.incarnations)
        assert {i.deployment for i in state.incarnations.values()} <= set(state.deployments)
        gone: dict[str, bool | None] = {**dict.fromkeys(whole.incarnations, False), **dict.fromkeys(live, False)}
        assert (state.wish, state.candidate) == (whole.wish, whole.candidate)
        known: list[dict[str, bool | None]] = [{}, gone, {**dict.fromkeys(gone, True)}]
        for alive in known:
            assert next_step(state, alive) == next_step(whole, alive)
    assert len(whole.deployments) == 120
    assert len(state.deployments) < 60, "what releases held last is kept beside the last that ended"


def test_folding_in_parts_and_from_a_saved_state_is_folding_at_once() -> None:
    records = [one.numbered(seq) for seq, one in enumerate(life(60), start=1)]
    at_once = fold(records)
    for cut in range(0, len(records), 7):
        saved = load(dump(fold(records[:cut])))
        assert saved is not None
        assert fold(records[cut:], saved) == at_once


def test_a_state_does_not_grow_with_its_age() -> None:
    def crashes(state: StreamState, count: int) -> StreamState:
        for _ in range(count):
            number = state.seq
            name = f"orders-{number}.00000001"
            news = [story.declared(f"orders-{number}"), story.standby(name), story.requested(f"r-{number}", name)]
            news += [story.ready(f"r-{number}", name), story.acquired(name, f"r-{number}", state.epoch + 1)]
            release = {"version": "1", "hash": hash_of("the same")}
            news[0] = record("declared", deployment=f"orders-{number}", release=release)
            state = fold([r.numbered(number + n) for n, r in enumerate([*news, story.failed(name)], start=1)], state)
        return state

    young = crashes(StreamState(), 21)
    old = crashes(young, 210)
    assert old.illegal_count == 0
    assert [len(found) for found in (old.deployments, old.incarnations, old.requests)] == [
        len(found) for found in (young.deployments, young.incarnations, young.requests)
    ]


def test_what_was_left_out_can_neither_be_declared_nor_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = fold([one.numbered(seq) for seq, one in enumerate(life(60), start=1)])
    assert "orders-1" in state.forgotten
    with pytest.raises(RuleBroken, match="declare-once"):
        check(state, story.declared("orders-1"))
    with pytest.raises(RuleBroken, match="wish-once"):
        check(state, story.wanted(next(name for name in state.forgotten if name.startswith("wish-"))))
    old = next(name for name in state.forgotten if name.startswith("ask-"))
    with pytest.raises(RuleBroken, match="ask-once"):
        check(state, story.requested(old, None))
    monkeypatch.setattr(saved_state, "IDS_KEPT", 3)
    later = [story.declared("later"), record("retired", deployment="later")]
    for number in range(10):
        later += [story.declared(f"more-{number}"), record("retired", deployment=f"more-{number}")]
    state = fold([one.numbered(state.seq + n) for n, one in enumerate(later, start=1)], state)
    assert len(state.forgotten) == 3


def test_after_any_record_of_that_number_the_state_is_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_state, "PRUNE_EVERY", 10**6)
    state = fold([one.numbered(seq) for seq, one in enumerate(life(60), start=1)])
    assert not state.forgotten
    monkeypatch.setattr(saved_state, "PRUNE_EVERY", state.seq + 1)
    for last in (record("a kind of a newer version"), Record.read(b"garbage", 0), story.fenced(story.NEW)):
        assert fold([last.numbered(state.seq + 1)], state).forgotten
