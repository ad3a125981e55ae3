"""Faults in the drivers, one each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import Seen, visible
from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.due_rewind import DueRewind, due_rewind
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.proof import Proof
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime import acts, agent, control_client
from airflow_stream_provider.runtime.acts import Acts
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.ports import QueryEnd
from tests.support.simulation.data import Batch, Data, Run
from tests.support.simulation.driver import Driver
from tests.support.simulation.mutants import Mutants, everywhere
from tests.support.simulation.queries import CHECKPOINT, Queries

MUTANTS = Mutants()


@MUTANTS.found_as("known-writer", "holder-commits", "one-writer")
def released_before_the_queries_stop(patch: pytest.MonkeyPatch) -> None:
    stop = Acts._stop_and_release

    def too_early(self: Acts, request: str | None, to: str | None) -> None:
        asked: dict[str, Any] = {"request": request, "to": to}
        said = {"boundary": "completed", "ends": {}, "committed": self._has_committed()}
        fields = {"incarnation": self._incarnation, **said, **asked}
        self._control.append_patiently(
            lambda state: self._control.record(Kind.RELEASED, **fields) if state.holder == self._incarnation else None
        )
        stop(self, request, to)

    patch.setattr(Acts, "_stop_and_release", too_early)


@MUTANTS.found_as("known-writer", "holder-commits", "one-writer")
def failed_without_stopping_the_queries(patch: pytest.MonkeyPatch) -> None:
    fail = Acts.fail

    def without_stop(self: Acts, reason: str, error: BaseException) -> None:
        self.running = False
        fail(self, reason, error)

    patch.setattr(Acts, "fail", without_stop)


@MUTANTS.found_as("known-writer", "no-double")
def an_interrupted_stop_called_completed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueryEnd, "quiet", property(lambda self: True))


@MUTANTS.found_as("paused", "lease")
def never_paused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queries, "pause", lambda self, seconds: None)


@MUTANTS.found_as("pause-bounded")
def paused_for_ever(patch: pytest.MonkeyPatch) -> None:
    unreachable = Agent._unreachable

    def patiently(self: Agent, error: Exception) -> None:
        self._policy = replace(self._policy, pause_seconds=float("inf"))
        unreachable(self, error)

    patch.setattr(Agent, "_unreachable", patiently)


@MUTANTS.found_as("runs-again")
def never_goes_on_after_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queries, "resume", lambda self: None)


@MUTANTS.found_as("confirmed-kill")
def lease_renewed_without_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Agent, "_unreachable", lambda self, error: self._renew(self._clock.monotonic()))


@MUTANTS.found_as("heeds-the-fence")
def goes_on_though_fenced(patch: pytest.MonkeyPatch) -> None:
    def goes_on(state: StreamState, me: DriverView, seconds: float) -> Action:
        action = decide(state, me, seconds)
        return Action.WAIT if action is Action.HALT else action

    patch.setattr(Agent, "_lost", lambda self, state: False)
    patch.setattr(agent, "decide", goes_on)


@MUTANTS.found_as("good-end")
def a_good_run_is_halted(patch: pytest.MonkeyPatch) -> None:
    def without_finished(state: StreamState, me: DriverView, take_back_seconds: float) -> Action:
        halts = me.running and state.holder != me.incarnation
        return Action.HALT if halts else decide(state, me, take_back_seconds)

    patch.setattr(agent, "decide", without_finished)


@MUTANTS.found_as("release-first")
def sigterm_ends_without_a_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        agent, "decide", lambda state, me, seconds: Action.EXIT if me.terminating else decide(state, me, seconds)
    )


@MUTANTS.found_as("take-back", "runs-again")
def never_takes_back(patch: pytest.MonkeyPatch) -> None:
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), released_for=None))


@MUTANTS.found_as("take-back-waits")
def takes_back_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agent, "decide", lambda state, me, seconds: decide(state, me, 0.0))


@MUTANTS.found_as("moved-first")
def released_to_whoever_has_answered(patch: pytest.MonkeyPatch) -> None:
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), peer_moved=True))


@MUTANTS.found_as("no-double")
def a_stale_checkpoint_believed(patch: pytest.MonkeyPatch) -> None:
    start = Queries.start

    def at_once(self: Queries, queries: Any, seen: Mapping[str, Seen]) -> None:
        start(self, queries, {})

    patch.setattr(Queries, "start", at_once)


@MUTANTS.found_as("no-double", "no-gap")
def any_checkpoint_is_started_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(visible, "is_another", lambda expected, found: False)


@MUTANTS.found_as("no-double", "no-gap")
def another_query_is_not_told_by_its_id(patch: pytest.MonkeyPatch) -> None:
    is_another = visible.is_another
    patch.setattr(
        visible, "is_another", lambda expected, found: is_another(expected._replace(id=""), found._replace(id=""))
    )


@MUTANTS.found_as("no-double", "no-gap")
def a_driver_that_restarts_in_place_looks_at_no_checkpoint(patch: pytest.MonkeyPatch) -> None:
    def restart(self: Queries, queries: Sequence[Queries]) -> None:
        if not self.waits:
            self.expected = Seen()
        self._start()

    patch.setattr(Queries, "restart", restart)


@MUTANTS.found_as("no-double", "no-gap")
def what_earlier_drivers_have_seen_of_the_checkpoint_does_not_count(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, control_client.seen_before, lambda state, incarnation, heartbeat: {})


@MUTANTS.found_as("no-double")
def a_late_checkpoint_is_no_error(patch: pytest.MonkeyPatch) -> None:
    start = Queries.start

    def all_the_same(self: Queries, queries: Any, seen: Mapping[str, Seen]) -> None:
        with suppress(CheckpointError):
            return start(self, queries, seen)
        return start(self, queries, {})

    patch.setattr(Queries, "start", all_the_same)


@MUTANTS.found_as("no-double")
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


@MUTANTS.found_as("runs-again")
def a_release_that_never_commits_is_tried_for_ever(patch: pytest.MonkeyPatch) -> None:
    with_committed(patch, None)


@MUTANTS.found_as("as-wished", "runs-again")
def a_release_that_has_committed_counts_as_one_that_never_did(patch: pytest.MonkeyPatch) -> None:
    with_committed(patch, False)


@MUTANTS.found_as("runs-again")
def whoever_has_not_failed_counts_as_one_that_has_committed(patch: pytest.MonkeyPatch) -> None:
    """As it was: of all ends but its own `failed`, nobody asked whether the driver had committed."""
    after = Proof.after
    patch.setattr(Proof, "after", lambda self, kind, said: after(self, kind, said if kind == Kind.FAILED else True))


@MUTANTS.found_as("commits-told")
def what_a_driver_has_committed_is_known_by_its_heartbeats_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queries, "has_committed", lambda self: False)


@MUTANTS.found_as("no-gap")
def a_new_driver_begins_at_the_end_of_the_topic(patch: pytest.MonkeyPatch) -> None:
    plan = Data.plan

    def latest(self: Data, driver: Driver, number: int, now: float) -> Run | None:
        if number == len(self.batches) and number and self.batches[-1].runs[-1].driver is not driver:
            begins = self.end_of(self.batches[-1].ends, now)
            self.batches.append(Batch(begins, self.end_of(begins, now + 1.0)))
        return plan(self, driver, number, now)

    patch.setattr(Data, "plan", latest)


@MUTANTS.found_as("no-gap")
def a_partition_is_left_out(patch: pytest.MonkeyPatch) -> None:
    end_of = Data.end_of
    patch.setattr(Data, "end_of", lambda self, begins, now: end_of(self, begins, now)[:1])


@MUTANTS.found_as("rewinds-once")
def a_rewind_goes_back_from_wherever_the_stream_is(patch: pytest.MonkeyPatch) -> None:
    rewind = Queries.rewind

    def wherever(self: Queries, queries: Sequence[Queries], due: DueRewind, seen: Mapping[str, Seen]) -> str:
        data = self._driver.world.data
        assert data is not None
        return rewind(self, queries, due._replace(stood={CHECKPOINT: data.seen(self._driver) - 1}), seen)

    patch.setattr(Queries, "rewind", wherever)


@MUTANTS.found_as("rewinds-or-tells")
def what_a_lost_driver_was_to_read_again_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """As it was: only the first driver of the deployment looked."""

    def due(state: StreamState, incarnation: str) -> DueRewind | None:
        found = due_rewind(state, incarnation)
        return None if found is None or found.owed else found

    patch.setattr(acts, "due_rewind", due)
