"""Faults in the log and its rules, one each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.control import log as reading
from airflow_stream_provider.lifecycle import driver_decision, rules
from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import IncarnationState, RequestStage, StreamState
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning import reconcile
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.steps import Step
from airflow_stream_provider.runtime import agent
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.control_client import ControlClient
from tests.support.simulation import watching
from tests.support.simulation.mutants import Mutants, everywhere, without_rule

MUTANTS = Mutants()


@MUTANTS.found_as("next-epoch")
def an_epoch_is_used_twice(patch: pytest.MonkeyPatch) -> None:
    without_rule(patch, Kind.ACQUIRED, "next-epoch")
    record = ControlClient.record

    def same_epoch(self: Any, kind: str, **fields: Any) -> Record:
        if kind == Kind.ACQUIRED and fields["epoch"] > 1:
            fields["epoch"] -= 1
        return record(self, kind, **fields)

    patch.setattr(ControlClient, "record", same_epoch)


@MUTANTS.found_as("fence-first")
def the_fence_is_left_out(patch: pytest.MonkeyPatch) -> None:
    def without_fence(state: StreamState, incarnation: str) -> bool:
        others = {name: i for name, i in state.incarnations.items() if i.state is not IncarnationState.INTERRUPTED}
        known = incarnation in others
        return known and may_acquire(replace(state, incarnations=others), incarnation)

    may_acquire = rules.may_acquire
    without_rule(patch, Kind.ACQUIRED, "fence-first")
    everywhere(patch, may_acquire, without_fence)


@MUTANTS.found_as("one-holder", "one-writer", "known-writer")
def a_holder_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    may_acquire = rules.may_acquire

    def though_held(state: StreamState, incarnation: str) -> bool:
        return may_acquire(replace(state, holder=None), incarnation)

    without_rule(patch, Kind.ACQUIRED, "one-holder")
    everywhere(patch, may_acquire, though_held)


@MUTANTS.found_as("only-the-appointed")
def whoever_stands_by_acquires(patch: pytest.MonkeyPatch) -> None:
    def any_standby(state: StreamState, incarnation: str) -> bool:
        request = state.open_request
        answered = request is not None and request.stage is not RequestStage.REQUESTED
        return answered and state.holder is None and not state.must_fence and rules.live_standby(state, incarnation)

    def at_once(state: StreamState, me: DriverView, seconds: float) -> Action:
        action, request = decide(state, me, seconds), state.open_request
        releaser = request is not None and request.source == me.incarnation
        uncalled = action is Action.WAIT and not releaser and any_standby(state, me.incarnation)
        return Action.ACQUIRE if uncalled else action

    everywhere(patch, rules.may_acquire, any_standby)
    patch.setattr(agent, "decide", at_once)


@MUTANTS.found_as("ready-first", "moved-first")
def an_answer_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    def at_once(state: StreamState, incarnation: str, request_id: str) -> bool:
        request = state.open_request
        return state.holder == incarnation and request is not None and request.id == request_id

    everywhere(patch, rules.may_release, at_once)
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), peer_moved=True))


@MUTANTS.found_as("not-to-the-lost", "runs-again")
def released_to_a_driver_that_is_lost(patch: pytest.MonkeyPatch) -> None:
    def though_lost(state: StreamState, incarnation: str, request_id: str) -> bool:
        request = state.open_request
        known = state.holder == incarnation and request is not None and request.id == request_id
        return known and request is not None and (request.to is None or request.stage is RequestStage.READY)

    everywhere(patch, rules.may_release, though_lost)


@MUTANTS.found_as("open-request")
def an_abort_is_ignored(patch: pytest.MonkeyPatch) -> None:
    may_release = rules.may_release

    def though_aborted(state: StreamState, incarnation: str, request_id: str) -> bool:
        found = state.requests.get(request_id)
        aborted = found is not None and found.to is not None and found.stage is RequestStage.ABORTED
        return (aborted and state.holder == incarnation) or may_release(state, incarnation, request_id)

    everywhere(patch, may_release, though_aborted)


@MUTANTS.found_as("ended-stays", "runs-again")
def a_retired_driver_acquires(patch: pytest.MonkeyPatch) -> None:
    def though_ended(state: StreamState, incarnation: str | None) -> bool:
        found = state.incarnations.get(incarnation or "")
        return found is not None and found.state in (IncarnationState.STANDBY, IncarnationState.RETIRED)

    def as_it_was(state: StreamState, me: DriverView, seconds: float) -> Action:
        found = state.incarnations.get(me.incarnation)
        if found is not None and found.state is IncarnationState.RETIRED and not me.terminating:
            return driver_decision._as_standby(state, me, seconds)
        return decide(state, me, seconds)

    without_rule(patch, Kind.RETIRED, "not-in-hand-over")
    without_rule(patch, Kind.RETIRED, "not-the-holder")
    everywhere(patch, rules.live_standby, though_ended)
    patch.setattr(agent, "decide", as_it_was)


@MUTANTS.found_as("one-request")
def a_second_request_is_made(patch: pytest.MonkeyPatch) -> None:
    whole = reconcile.reconcile

    def beside(scene: Scene, wish: Wish | None = None) -> Step:
        state = scene.state
        request = state.open_request
        if request is not None and request.by != scene.me.by:
            closed = {**state.requests, request.id: replace(request, stage=RequestStage.ABORTED)}
            scene = replace(scene, snapshot=replace(scene.snapshot, state=replace(state, requests=closed)))
        return whole(scene, wish)

    without_rule(patch, Kind.REQUESTED, "one-request")
    everywhere(patch, whole, beside)
    patch.setattr(watching, "reconcile", beside)


@MUTANTS.found_as("forgery-carried", "legal", "whole-log", "one-writer", "known-writer", "runs-again", "holder-commits")
def obeys_what_the_rules_forbid(patch: pytest.MonkeyPatch) -> None:
    def obeying(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
        with patch.context() as without:
            without.setattr(folding, "check", lambda state, record: None)
            return folding.fold(records, state)

    patch.setattr(reading, "fold", obeying)


@MUTANTS.found_as("whole-log", "legal", "no-surprise")
def carries_what_it_cannot_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "check_chain", lambda stream, nonce, records: None)
