"""Faults in the watch and the operators, one each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.hooks import submit
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning import bring_up, choice, fence, reconcile, retire
from airflow_stream_provider.planning.due import is_due
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import Dead, SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, Kill, Wait
from airflow_stream_provider.planning.waits import Observations
from tests.support.simulation import airflow, watching
from tests.support.simulation.mutants import Mutants, everywhere

MUTANTS = Mutants()


@MUTANTS.found_as("as-asked")
def a_start_gives_up_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, bring_up.was_lost, lambda state, deployment: False)


@MUTANTS.found_as("confirmed-kill", "silent-first", "intent-first")
def fenced_without_a_confirmation(patch: pytest.MonkeyPatch) -> None:
    def at_once(snapshot: Snapshot, incarnation: str, outcome: Any, reason: str) -> Append:
        return Append(Kind.FENCED, {"incarnation": incarnation, "reason": reason, "evidence": {"driver": "silent"}})

    everywhere(patch, fence.fence, at_once)


@MUTANTS.found_as("silent-first", "confirmed-kill")
def fenced_while_it_may_still_beat(patch: pytest.MonkeyPatch) -> None:
    check = Dead.check

    def at_once(self: Dead, snapshot: Snapshot, seen: Observations) -> Any:
        return check(replace(self, lease=0.0), snapshot, seen)

    patch.setattr(Dead, "check", at_once)


@MUTANTS.found_as("silent-first", "confirmed-kill")
def a_fence_goes_by_the_first_policy(patch: pytest.MonkeyPatch) -> None:
    policy = Snapshot.policy
    patch.setattr(Snapshot, "policy", lambda self, deployment: policy(self, next(iter(self.state.deployments), "")))


@MUTANTS.found_as("confirmed-kill")
def a_lost_machine_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    check = Dead.check
    patch.setattr(Dead, "check", lambda self, snapshot, seen: check(replace(self, pause=0.0), snapshot, seen))


@MUTANTS.found_as("confirmed-kill", "one-writer")
def a_ledger_that_was_not_asked_counts_as_one_that_refuses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(airflow.Task, "refuse", lambda self, refusal: True)


@MUTANTS.found_as("one-writer", "known-writer", "no-double", "holder-commits", "confirmed-kill")
def a_driver_is_refused_up_to_the_hold_before_its_own(patch: pytest.MonkeyPatch) -> None:
    refusal = fence._refusal

    def before(*given: Any) -> Any:
        found = refusal(*given)
        return found and replace(found, epoch=found.epoch - 1)

    everywhere(patch, fence._refusal, before)


@MUTANTS.found_as("intent-first")
def fenced_without_an_intent(patch: pytest.MonkeyPatch) -> None:
    def at_once(snapshot: Snapshot, incarnation: str, outcome: Any, reason: str) -> Any:
        step = whole(snapshot, incarnation, outcome, reason)
        policy = snapshot.policy(deployment_of(incarnation))
        then = Dead(incarnation, policy.lease_seconds, policy.pause_seconds)
        return Kill(deployment_of(incarnation), then) if getattr(step, "kind", "") == Kind.FENCING else step

    whole = fence.fence
    everywhere(patch, fence.fence, at_once)


@MUTANTS.found_as("appoints-the-living", "runs-again")
def the_watch_appoints_the_dead(patch: pytest.MonkeyPatch) -> None:
    alive = vars(Scene)["alive"].func

    def all_live(self: Scene) -> Any:
        known, holder = alive(self), self.state.holder or ""
        return {**known, **dict.fromkeys(self.state.incarnations, True), holder: known.get(holder)}

    patch.setattr(Scene, "alive", property(all_live))


@MUTANTS.found_as("runs-again", "as-wanted")
def the_watch_finds_nothing_due(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(watching, "is_due", lambda scene, *, cluster_answers: False)


@MUTANTS.found_as("as-wanted")
def the_watch_leaves_a_wish_to_its_task_while_a_driver_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(watching, "is_due", lambda scene, **more: scene.state.holder is None and is_due(scene, **more))


@MUTANTS.found_as("as-asked")
def a_stop_lets_the_holder_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_ask_to_stop", lambda scene, wish, holder: Done({}))


@MUTANTS.found_as("as-asked")
def a_stop_retires_nobody(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, retire.retire_all, lambda scene, deployments, reason: None)


@MUTANTS.found_as("as-asked")
def a_hand_over_is_done_while_another_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_change", lambda scene, wish, holder: Done({}))


@MUTANTS.found_as("as-asked")
def a_retirement_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retire, "end", lambda scene, deployment, reason: Done({}))


@MUTANTS.found_as("submit-once")
def submitted_without_asking_the_cluster(patch: pytest.MonkeyPatch) -> None:
    once = submit.submit_once
    patch.setattr(airflow, "submit_once", lambda *rest, **more: once(*rest, **{**more, "first": True}))


@MUTANTS.found_as("runs-again")
def a_recovery_asks_only_after_those_it_knows_nothing_of(patch: pytest.MonkeyPatch) -> None:
    def the_unknown(scene: Scene, drivers: Iterable[str]) -> Any:
        step = closer(scene, drivers)
        if isinstance(step, Wait) and isinstance(step.condition, SignsOfLife):
            unknown = {name: beats for name, beats in step.condition.counters.items() if scene.alive.get(name) is None}
            return Wait(replace(step.condition, counters=unknown))
        return step

    closer = reconcile.known_to_live
    everywhere(patch, closer, the_unknown)


@MUTANTS.found_as("as-asked")
def a_submission_that_nobody_has_recorded(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, bring_up.record_submission, lambda scene, deployment: None)


@MUTANTS.found_as("as-wished")
def the_watch_goes_back_to_the_oldest(patch: pytest.MonkeyPatch) -> None:
    def oldest(state: StreamState, wish: Wish, now: float) -> choice.Family:
        held = [state.deployments[i.deployment].family for i in state.incarnations.values() if i.epoch]
        return choice.Family(held[0] if held else wish.family)

    everywhere(patch, choice.choose, oldest)


@MUTANTS.found_as("as-wished")
def the_watch_puts_a_new_release_in_charge(patch: pytest.MonkeyPatch) -> None:
    def newest(state: StreamState, wish: Wish, now: float) -> choice.Family:
        known = [each.family for each in state.deployments.values()]
        return choice.Family(known[-1]) if known else choose(state, wish, now)

    choose = choice.choose
    everywhere(patch, choice.choose, newest)
