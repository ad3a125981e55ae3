"""Faults in the watch and the operators, one each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.hooks import submit
from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle import rules
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.planning import (
    descent,
    fence,
    recover,
    recovery_decision,
    retire,
    roll_back,
    stand_by,
    start,
    stop,
    take_over,
)
from airflow_stream_provider.planning import recover as revival
from airflow_stream_provider.planning.recovery_decision import RecoveryAction, recovery_step
from airflow_stream_provider.planning.signs_of_life import Dead, SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, Wait
from airflow_stream_provider.planning.waits import Observations
from tests.support.simulation import watching
from tests.support.simulation.mutants import Mutants, everywhere

MUTANTS = Mutants()


@MUTANTS.found_as("stop-stays")
def a_stop_of_what_is_down_changes_nothing(patch: pytest.MonkeyPatch) -> None:
    stopped = folding._APPLY[Kind.STOPPED]

    def still_down(draft: Any, record: Record) -> None:
        end = draft.last_end
        stopped(draft, record)
        draft.last_end = end

    patch.setitem(folding._APPLY, Kind.STOPPED, still_down)


@MUTANTS.found_as("stop-stays")
def the_watch_starts_what_was_stopped(patch: pytest.MonkeyPatch) -> None:
    class AlsoStopped:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, phase: object) -> bool:
            return phase in (StreamPhase.DOWN, StreamPhase.STOPPED)

    class Down:
        DOWN, FAILED = AlsoStopped(), StreamPhase.FAILED

    patch.setattr(recovery_decision, "StreamPhase", Down)
    patch.setattr(recover, "StreamPhase", Down)


@MUTANTS.found_as("as-asked")
def a_start_gives_up_what_was_lost(patch: pytest.MonkeyPatch) -> None:
    everywhere(
        patch,
        start.own_tries,
        lambda state, identity, stream, version: (identity.deployment(stream, version),),
    )


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


@MUTANTS.found_as("appoints-the-living", "runs-again")
def the_watch_appoints_the_dead(patch: pytest.MonkeyPatch) -> None:
    def all_live(state: StreamState, alive: Mapping[str, bool | None], now: float, **more: Any) -> Any:
        holder = {state.holder or "": alive.get(state.holder or "")}
        return recovery_step(state, {**dict.fromkeys(state.incarnations, True), **holder}, now, **more)

    everywhere(patch, recovery_step, all_live)


@MUTANTS.found_as("runs-again")
def the_watch_finds_nothing_due(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, revival.revival_is_due, lambda snapshot, alive, *, cluster_answers: False)
    patch.setattr(watching, "revival_is_due", lambda snapshot, alive, *, cluster_answers: False)


@MUTANTS.found_as("as-asked")
def a_stop_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stop, "stop", lambda snapshot, identity, outcome, reason, **more: Done({}))


@MUTANTS.found_as("runs-again")
def a_restart_stops_for_good(patch: pytest.MonkeyPatch) -> None:
    whole = stop.stop
    patch.setattr(stop, "stop", lambda *rest, restarts, **more: whole(*rest, **more))


@MUTANTS.found_as("as-asked")
def a_stop_retires_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stop, "retire_all", lambda snapshot, deployments, outcome, reason: None)


@MUTANTS.found_as("as-asked")
def a_hand_over_is_done_while_another_holds(patch: pytest.MonkeyPatch) -> None:
    plan = take_over.take_over

    def soon(snapshot: Snapshot, *rest: Any, **more: Any) -> Any:
        return Done({}) if snapshot.holding else plan(snapshot, *rest, **more)

    patch.setattr(take_over, "take_over", soon)


@MUTANTS.found_as("as-asked")
def a_roll_back_always_skips(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(roll_back, "roll_back", lambda *rest, **more: Skip("Nothing to do."))


@MUTANTS.found_as("as-asked", "rolled-back-stays")
def a_roll_back_leaves_the_bad_one_warm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(roll_back, "_put_aside", lambda snapshot, bads, outcome, reason: None)


@MUTANTS.found_as("as-asked")
def a_retirement_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retire, "retire", lambda snapshot, deployment, outcome, reason: Done({}))


@MUTANTS.found_as("intent-first")
def fenced_without_an_intent(patch: pytest.MonkeyPatch) -> None:
    def at_once(snapshot: Snapshot, incarnation: str, outcome: Any, reason: str) -> Any:
        step = whole(snapshot, incarnation, outcome, reason)
        policy = snapshot.policy(deployment_of(incarnation))
        then = Dead(incarnation, policy.lease_seconds, policy.pause_seconds)
        return Kill(deployment_of(incarnation), then) if getattr(step, "kind", "") == Kind.FENCING else step

    whole = fence.fence
    everywhere(patch, fence.fence, at_once)


@MUTANTS.found_as("no-downgrade")
def the_watch_goes_back_to_the_oldest(patch: pytest.MonkeyPatch) -> None:
    def oldest(state: StreamState, now: float) -> Any:
        return recovery_decision._Choice(next(i for i in state.incarnations.values() if i.epoch).deployment)

    patch.setattr(recovery_decision, "_choose", oldest)


@MUTANTS.found_as("no-downgrade")
def the_watch_puts_a_new_release_in_charge(patch: pytest.MonkeyPatch) -> None:
    def newest(state: StreamState, alive: Mapping[str, bool | None], now: float, **more: Any) -> Any:
        step = recovery_step(state, alive, now, **more)
        fresh = [i for i in state.standbys() if rules.live_standby(state, i.id) and alive.get(i.id)]
        return replace(step, subject=fresh[-1].id) if step.action is RecoveryAction.REQUEST and fresh else step

    everywhere(patch, recovery_step, newest)


@MUTANTS.found_as("rolled-back-stays")
def a_roll_back_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, descent.wanted_instead, lambda state: None)


@MUTANTS.found_as("submit-once")
def submitted_without_asking_the_cluster(patch: pytest.MonkeyPatch) -> None:
    once = submit.submit_once
    patch.setattr(
        "tests.support.simulation.airflow.submit_once", lambda *rest, **more: once(*rest, **{**more, "first": True})
    )


@MUTANTS.found_as("runs-again")
def a_recovery_asks_only_after_those_it_knows_nothing_of(patch: pytest.MonkeyPatch) -> None:
    def the_unknown(snapshot: Snapshot, identity: Any, outcome: Any, alive: Mapping[str, Any], coming: Any) -> Any:
        step = closer(snapshot, identity, outcome, alive, coming)
        if isinstance(step, Wait) and isinstance(step.condition, SignsOfLife):
            unknown = {name: beats for name, beats in step.condition.counters.items() if alive.get(name) is None}
            return Wait(replace(step.condition, counters=unknown))
        return step

    closer = recover._look_closer
    patch.setattr(recover, "_look_closer", the_unknown)


@MUTANTS.found_as("as-asked")
def a_submission_that_nobody_has_recorded(patch: pytest.MonkeyPatch) -> None:
    def once_up(snapshot: Snapshot, deployment: str, outcome: Any) -> Any:
        return Done({}) if snapshot.candidate(deployment) else whole(snapshot, deployment, outcome)

    whole = stand_by.stand_by
    everywhere(patch, whole, once_up)
