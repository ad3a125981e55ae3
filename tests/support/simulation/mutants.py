"""Faults in the product, one each: the rule that it leaves out, and by which names the simulation must find it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.control import log as reading
from airflow_stream_provider.lifecycle import driver_decision, rules
from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import IncarnationState, RequestStage, StreamState
from airflow_stream_provider.planning import take_over
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.runtime import agent
from airflow_stream_provider.runtime.acts import Acts
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.ports import QueryEnd
from tests.support.simulation.data import Batch, Data, Run
from tests.support.simulation.driver import Driver
from tests.support.simulation.queries import Queries

Patch = Callable[[pytest.MonkeyPatch], None]
MUTANTS: list[tuple[Patch, frozenset[str]]] = []


def found_as(*names: str) -> Callable[[Patch], Patch]:
    """Add a mutant that breaks these invariants: whichever the seed comes to first."""

    def add(patch: Patch) -> Patch:
        MUTANTS.append((patch, frozenset(names)))
        return patch

    return add


def without_rule(patch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """Leave one rule out for whoever reads or writes."""
    patch.setitem(rules.RULES, kind, tuple(rule for rule in rules.RULES[kind] if rule.name != name))


def everywhere(patch: pytest.MonkeyPatch, function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Put another function in its place in every module of the provider that uses it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("airflow_stream_provider.") and getattr(module, function.__name__, None) is function:
            patch.setattr(module, function.__name__, other)


# -- drivers -----------------------------------------------------------------------------------------------------------


@found_as("known-writer", "holder-commits", "one-writer")
def released_before_the_queries_stop(patch: pytest.MonkeyPatch) -> None:
    stop = Acts._stop_and_release

    def too_early(self: Acts, request: str | None, to: str | None) -> None:
        asked: dict[str, Any] = {"request": request, "to": to}
        fields = {"incarnation": self._incarnation, "boundary": "completed", "ends": {}, **asked}
        self._control.append_patiently(
            lambda state: self._control.record(Kind.RELEASED, **fields) if state.holder == self._incarnation else None
        )
        stop(self, request, to)

    patch.setattr(Acts, "_stop_and_release", too_early)


@found_as("known-writer", "holder-commits", "one-writer")
def failed_without_stopping_the_queries(patch: pytest.MonkeyPatch) -> None:
    fail = Acts.fail

    def without_stop(self: Acts, reason: str, error: BaseException) -> None:
        self.running = False
        fail(self, reason, error)

    patch.setattr(Acts, "fail", without_stop)


@found_as("known-writer", "no-double")
def an_interrupted_stop_called_completed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueryEnd, "quiet", property(lambda self: True))


@found_as("paused", "lease")
def never_paused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queries, "pause", lambda self, seconds: None)


@found_as("pause-bounded")
def paused_for_ever(patch: pytest.MonkeyPatch) -> None:
    unreachable = Agent._unreachable

    def patiently(self: Agent, error: Exception) -> None:
        self._policy = replace(self._policy, pause_seconds=float("inf"))
        unreachable(self, error)

    patch.setattr(Agent, "_unreachable", patiently)


@found_as("runs-again")
def never_goes_on_after_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queries, "resume", lambda self: None)


@found_as("confirmed-kill")
def lease_renewed_without_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Agent, "_unreachable", lambda self, error: self._renew(self._clock.monotonic()))


@found_as("heeds-the-fence")
def goes_on_though_fenced(patch: pytest.MonkeyPatch) -> None:
    def goes_on(state: StreamState, me: DriverView, seconds: float) -> Action:
        action = decide(state, me, seconds)
        return Action.WAIT if action is Action.HALT else action

    patch.setattr(Agent, "_lost", lambda self, state: False)
    patch.setattr(agent, "decide", goes_on)


@found_as("good-end")
def a_good_run_is_halted(patch: pytest.MonkeyPatch) -> None:
    def without_finished(state: StreamState, me: DriverView, take_back_seconds: float) -> Action:
        halts = me.running and state.holder != me.incarnation
        return Action.HALT if halts else decide(state, me, take_back_seconds)

    patch.setattr(agent, "decide", without_finished)


@found_as("release-first")
def sigterm_ends_without_a_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        agent, "decide", lambda state, me, seconds: Action.EXIT if me.terminating else decide(state, me, seconds)
    )


@found_as("take-back", "runs-again")
def never_takes_back(patch: pytest.MonkeyPatch) -> None:
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), released_for=None))


@found_as("take-back-waits")
def takes_back_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agent, "decide", lambda state, me, seconds: decide(state, me, 0.0))


@found_as("moved-first")
def released_to_whoever_has_answered(patch: pytest.MonkeyPatch) -> None:
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), peer_moved=True))


@found_as("no-double")
def a_stale_checkpoint_believed(patch: pytest.MonkeyPatch) -> None:
    start = Queries.start

    def at_once(self: Queries, queries: Any, committed: Mapping[str, int], *, required: bool = True) -> None:
        start(self, queries, {}, required=required)

    patch.setattr(Queries, "start", at_once)


@found_as("no-double")
def a_late_checkpoint_is_no_error(patch: pytest.MonkeyPatch) -> None:
    start = Queries.start

    def all_the_same(self: Queries, queries: Any, committed: Mapping[str, int], *, required: bool = True) -> None:
        start(self, queries, committed, required=False)

    patch.setattr(Queries, "start", all_the_same)


@found_as("no-double")
def what_a_failed_driver_has_committed_is_dropped(patch: pytest.MonkeyPatch) -> None:
    failed = folding._APPLY[Kind.FAILED]

    def without_ends(draft: Any, record: Record) -> None:
        failed(draft, replace(record, fields={**record.fields, "ends": {}}))

    patch.setitem(folding._APPLY, Kind.FAILED, without_ends)


def with_committed(patch: pytest.MonkeyPatch, committed: bool | None) -> None:
    """Take all failures for those of drivers that say this of their commits."""
    failed = folding._APPLY[Kind.FAILED]

    def instead(draft: Any, record: Record) -> None:
        failed(draft, replace(record, fields={**record.fields, "committed": committed}))

    patch.setitem(folding._APPLY, Kind.FAILED, instead)


@found_as("runs-again")
def a_release_that_never_commits_is_tried_for_ever(patch: pytest.MonkeyPatch) -> None:
    with_committed(patch, None)


@found_as("no-downgrade", "runs-again")
def a_release_that_has_committed_counts_as_one_that_never_did(patch: pytest.MonkeyPatch) -> None:
    with_committed(patch, False)


@found_as("no-gap")
def a_new_driver_begins_at_the_end_of_the_topic(patch: pytest.MonkeyPatch) -> None:
    plan = Data.plan

    def latest(self: Data, driver: Driver, number: int, now: float) -> Run:
        if number == len(self.batches) and number and self.batches[-1].runs[-1].driver is not driver:
            begins = self.end_of(self.batches[-1].ends, now)
            self.batches.append(Batch(begins, self.end_of(begins, now + 1.0)))
        return plan(self, driver, number, now)

    patch.setattr(Data, "plan", latest)


@found_as("no-gap")
def a_partition_is_left_out(patch: pytest.MonkeyPatch) -> None:
    end_of = Data.end_of
    patch.setattr(Data, "end_of", lambda self, begins, now: end_of(self, begins, now)[:1])


# -- the log and its rules ---------------------------------------------------------------------------------------------


@found_as("next-epoch")
def an_epoch_is_used_twice(patch: pytest.MonkeyPatch) -> None:
    without_rule(patch, Kind.ACQUIRED, "next-epoch")
    record = driver_record()

    def same_epoch(self: Any, kind: str, **fields: Any) -> Record:
        if kind == Kind.ACQUIRED and fields["epoch"] > 1:
            fields["epoch"] -= 1
        return record(self, kind, **fields)

    patch.setattr("airflow_stream_provider.runtime.control_client.ControlClient.record", same_epoch)


def driver_record() -> Callable[..., Record]:
    """Return how a driver makes its records."""
    from airflow_stream_provider.runtime.control_client import ControlClient

    return ControlClient.record


@found_as("fence-first")
def the_fence_is_left_out(patch: pytest.MonkeyPatch) -> None:
    def without_fence(state: StreamState, incarnation: str) -> bool:
        others = {name: i for name, i in state.incarnations.items() if i.state is not IncarnationState.INTERRUPTED}
        known = incarnation in others
        return known and may_acquire(replace(state, incarnations=others), incarnation)

    may_acquire = rules.may_acquire
    without_rule(patch, Kind.ACQUIRED, "fence-first")
    everywhere(patch, may_acquire, without_fence)


@found_as("one-holder", "one-writer", "known-writer")
def a_holder_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    may_acquire = rules.may_acquire

    def though_held(state: StreamState, incarnation: str) -> bool:
        return may_acquire(replace(state, holder=None), incarnation)

    without_rule(patch, Kind.ACQUIRED, "one-holder")
    everywhere(patch, may_acquire, though_held)


@found_as("ready-first", "moved-first")
def an_answer_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    def at_once(state: StreamState, incarnation: str, request_id: str) -> bool:
        request = state.open_request
        return state.holder == incarnation and request is not None and request.id == request_id

    everywhere(patch, rules.may_release, at_once)
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), peer_moved=True))


@found_as("not-to-the-lost", "runs-again")
def released_to_a_driver_that_is_lost(patch: pytest.MonkeyPatch) -> None:
    def though_lost(state: StreamState, incarnation: str, request_id: str) -> bool:
        request = state.open_request
        known = state.holder == incarnation and request is not None and request.id == request_id
        return known and request is not None and (request.to is None or request.stage is RequestStage.READY)

    everywhere(patch, rules.may_release, though_lost)


@found_as("open-request")
def an_abort_is_ignored(patch: pytest.MonkeyPatch) -> None:
    may_release = rules.may_release

    def though_aborted(state: StreamState, incarnation: str, request_id: str) -> bool:
        found = state.requests.get(request_id)
        aborted = found is not None and found.to is not None and found.stage is RequestStage.ABORTED
        return (aborted and state.holder == incarnation) or may_release(state, incarnation, request_id)

    everywhere(patch, may_release, though_aborted)


@found_as("ended-stays")
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


@found_as("one-request")
def a_second_request_is_made(patch: pytest.MonkeyPatch) -> None:
    plan = take_over.take_over

    def beside(snapshot: Snapshot, *rest: Any, **more: Any) -> Any:
        state = snapshot.state
        request = state.open_request
        if request is not None and request.by != rest[0].by:
            closed = {**state.requests, request.id: replace(request, stage=RequestStage.ABORTED)}
            snapshot = replace(snapshot, state=replace(state, requests=closed))
        return plan(snapshot, *rest, **more)

    without_rule(patch, Kind.REQUESTED, "one-request")
    patch.setattr(take_over, "take_over", beside)


@found_as("forgery-carried", "legal", "whole-log", "one-writer", "known-writer", "runs-again", "holder-commits")
def obeys_what_the_rules_forbid(patch: pytest.MonkeyPatch) -> None:
    def obeying(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
        with patch.context() as without:
            without.setattr(folding, "check", lambda state, record: None)
            return folding.fold(records, state)

    patch.setattr(reading, "fold", obeying)


@found_as("whole-log", "legal", "no-surprise")
def carries_what_it_cannot_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "check_chain", lambda stream, nonce, records: None)
