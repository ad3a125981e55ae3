"""Faults in what is made of wishes, one each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import Deployment, StreamState
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from airflow_stream_provider.planning import choice, gates, pursue, reconcile, verbs
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.steps import Skip, Step, Want
from airflow_stream_provider.planning.verbs import Answer
from tests.support.simulation import watching
from tests.support.simulation.mutants import Mutants, everywhere

MUTANTS = Mutants()


def folded(patch: pytest.MonkeyPatch, counts: Callable[[Any, Record], bool]) -> None:
    """Let the fold forget the wishes that do not count."""
    wanted = folding._APPLY[Kind.WANTED]
    patch.setitem(folding._APPLY, Kind.WANTED, lambda draft, r: wanted(draft, r) if counts(draft, r) else None)


def _with_wish(scene: Scene, wish: Wish | None) -> Scene:
    """The scene as if another wish governed."""
    return replace(scene, snapshot=replace(scene.snapshot, state=replace(scene.state, wish=wish)))


@MUTANTS.found_as("one-wish")
def a_wish_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """The fold forgets that a release which stands by is to hold."""
    folded(patch, lambda draft, r: r["goal"] != "hold" or not r.get("family"))


@MUTANTS.found_as("one-wish")
def a_stop_of_what_is_down_changes_nothing(patch: pytest.MonkeyPatch) -> None:
    folded(patch, lambda draft, r: r["goal"] not in ("stop", "leave") or draft.holder is not None)


@MUTANTS.found_as("one-wish")
def a_roll_back_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    folded(patch, lambda draft, r: not r.get("back"))


@MUTANTS.found_as("one-wish")
def two_wishes_are_current(patch: pytest.MonkeyPatch) -> None:
    """What was to stand by is to stand by still when something else is to hold."""
    wanted = folding._APPLY[Kind.WANTED]

    def beside(draft: Any, r: Record) -> None:
        candidate = draft.candidate
        wanted(draft, r)
        draft.candidate = draft.candidate or candidate

    patch.setitem(folding._APPLY, Kind.WANTED, beside)


@MUTANTS.found_as("one-wish")
def every_wish_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamState, "is_current", lambda self, wish: True)


@MUTANTS.found_as("current-wish", "as-wished", "stop-stays", "told-truly", "as-asked")
def the_wish_of_a_replaced_task_is_obeyed(patch: pytest.MonkeyPatch) -> None:
    """By the task itself, which goes on as if it were the last one."""
    whole = pursue.pursue

    def mine_counts(scene: Scene, verb: Any) -> Step:
        mine = scene.state.wishes.get(scene.me.wish)
        if mine is None or mine.goal.value == "stand_by":
            return whole(scene, verb)
        return whole(_with_wish(scene, mine), verb)

    everywhere(patch, whole, mine_counts)
    patch.setattr("tests.support.simulation.airflow.pursue", mine_counts)


@MUTANTS.found_as("told-truly", "as-asked")
def a_replaced_task_says_that_it_is_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pursue, "replaced", lambda snapshot, wish: HandOverFailed("It is over.", next_step="Go on."))


@MUTANTS.found_as("approved-first")
def a_gate_is_skipped(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, gates.closed, lambda scene, wish, standby: None)


@MUTANTS.found_as("approved-first")
def a_gate_is_skipped_without_a_holder(patch: pytest.MonkeyPatch) -> None:
    closed = gates.closed
    patch.setattr(reconcile, "closed", lambda scene, wish, it: closed(scene, wish, it) if scene.state.holder else None)


@MUTANTS.found_as("stop-stays", "as-wished", "current-wish")
def the_watch_starts_whatever_held_last(patch: pytest.MonkeyPatch) -> None:
    """It goes by no wish."""

    def by_the_last_holder(scene: Scene, wish: Wish | None = None) -> Step:
        last = scene.state.last_deployment
        if last is None or scene.state.holder is not None:
            return reconcile.reconcile(scene, wish)
        record = Record(Kind.WANTED, {"wish": last.family, "goal": "hold"}, seq=last.declared.seq)
        return reconcile.reconcile(_with_wish(scene, Wish(record, last.family)), wish)

    patch.setattr(watching, "reconcile", by_the_last_holder)
    patch.setattr(
        watching,
        "is_due",
        lambda scene, *, cluster_answers: (
            cluster_answers and scene.state.holder is None and scene.state.last_deployment is not None
        ),
    )


@MUTANTS.found_as("stop-stays", "as-asked")
def the_watch_starts_what_was_stopped(patch: pytest.MonkeyPatch) -> None:
    def goes_on(scene: Scene, wish: Wish) -> Step | None:
        before = [each for each in scene.state.wishes.values() if not each.goal.rest and each.goal.value == "hold"]
        return reconcile._hold(_with_wish(scene, before[-1]), before[-1]) if before else stop(scene, wish)

    stop = reconcile._stop
    patch.setattr(reconcile, "_stop", goes_on)


@MUTANTS.found_as("as-asked")
def a_roll_back_always_skips(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verbs, "roll_back", lambda scene, reason: Skip("Nothing to do."))


@MUTANTS.found_as("rolled-back-stays", "as-wished")
def a_roll_back_leaves_the_bad_one_its_turn(patch: pytest.MonkeyPatch) -> None:
    choose = choice.choose

    def though_rolled_back(state: StreamState, wish: Wish, now: float) -> choice.Family:
        first = choose(state, wish, now)
        bad = wish.back and state.has_run(wish.before)
        return choice.Family(wish.before) if bad and state.held_from < wish.seq else first

    everywhere(patch, choose, though_rolled_back)


@MUTANTS.found_as("way-back")
def what_was_to_hold_before_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(folding, "_before", lambda draft, r: "")


@MUTANTS.found_as("way-back", "as-wished")
def a_roll_back_goes_to_what_never_held(patch: pytest.MonkeyPatch) -> None:
    def newest(state: StreamState, last: Deployment) -> str:
        others = [each.family for each in state.deployments.values() if each.family != last.family]
        return others[-1] if others else ""

    patch.setattr(verbs, "_held_before", newest)


@MUTANTS.found_as("stop-stays")
def to_call_off_starts_what_was_stopped(patch: pytest.MonkeyPatch) -> None:
    """What held last is to hold again, and not what was wished for before."""
    withdraw = verbs.withdraw

    def starts(scene: Scene, family: str, reason: str) -> Answer:
        found, last = withdraw(scene, family, reason), scene.state.last_deployment
        if isinstance(found, Want) and last is not None and scene.state.holder is None:
            return verbs._want(scene, Goal.HOLD, reason, family=last.family)
        return found

    patch.setattr(verbs, "withdraw", starts)


@MUTANTS.found_as("as-wanted")
def what_was_to_stand_by_outlives_its_wish(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_retire_spare", lambda scene: None)


@MUTANTS.found_as("told-truly", "as-wished", "stop-stays")
def a_replaced_release_comes_up_to_stand_by(patch: pytest.MonkeyPatch) -> None:
    """By the task itself, which goes on as if it were the last one."""
    whole = pursue.pursue

    def mine_counts(scene: Scene, verb: Any) -> Step:
        mine, state = scene.state.wishes.get(scene.me.wish), scene.state
        if mine is None or mine.goal is not Goal.STAND_BY:
            return whole(scene, verb)
        return whole(replace(scene, snapshot=replace(scene.snapshot, state=replace(state, candidate=mine))), verb)

    patch.setattr("tests.support.simulation.airflow.pursue", mine_counts)


@MUTANTS.found_as("as-wished")
def another_release_stands_in_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_is_late", lambda scene, deployment: True)
