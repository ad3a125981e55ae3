"""The model check finds an agent that breaks the protocol: each of these has one fault."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_stream_provider.control import log as reading
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle import fold as folding
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime import agent
from airflow_stream_provider.runtime.acts import Acts
from airflow_stream_provider.runtime.agent import Agent
from tests.support.simulation.driver import Queries
from tests.support.simulation.machine import Streams, StreamsDown, StreamsPutBack

Patch = Callable[[pytest.MonkeyPatch], None]


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


def failed_without_stopping_the_queries(patch: pytest.MonkeyPatch) -> None:
    fail = Acts.fail

    def without_stop(self: Acts, reason: str, error: BaseException) -> None:
        self.running = False
        fail(self, reason, error)

    patch.setattr(Acts, "fail", without_stop)


def never_paused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queries, "pause", lambda self, seconds: None)


def paused_for_ever(patch: pytest.MonkeyPatch) -> None:
    unreachable = Agent._unreachable

    def patiently(self: Agent, error: Exception) -> None:
        self._policy = replace(self._policy, pause_seconds=float("inf"))
        unreachable(self, error)

    patch.setattr(Agent, "_unreachable", patiently)


def a_good_run_is_halted(patch: pytest.MonkeyPatch) -> None:
    def without_finished(state: StreamState, me: DriverView, take_back_seconds: float) -> Action:
        halts = me.running and state.holder != me.incarnation
        return Action.HALT if halts else decide(state, me, take_back_seconds)

    patch.setattr(agent, "decide", without_finished)


def never_takes_back(patch: pytest.MonkeyPatch) -> None:
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), released_for=None))


def obeys_what_the_rules_forbid(patch: pytest.MonkeyPatch) -> None:
    def obeying(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
        with patch.context() as without:
            without.setattr(folding, "check", lambda state, record: None)
            return folding.fold(records, state)

    patch.setattr(reading, "fold", obeying)


def a_stop_of_what_is_down_changes_nothing(patch: pytest.MonkeyPatch) -> None:
    stopped = folding._APPLY[Kind.STOPPED]

    def still_down(draft: Any, record: Record) -> None:
        end = draft.last_end
        stopped(draft, record)
        draft.last_end = end

    patch.setitem(folding._APPLY, Kind.STOPPED, still_down)


def never_verifies_the_chain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ControlLog, "_verify", lambda self: None)


def carries_what_it_cannot_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "check_chain", lambda stream, nonce, records: None)


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("fault", "broken", "machine"),
    [
        (released_before_the_queries_stop, "rule 1", Streams),
        (failed_without_stopping_the_queries, "rule 1", Streams),
        (never_paused, "rule 2", Streams),
        (paused_for_ever, "rule 2: it is paused for longer", Streams),
        (a_good_run_is_halted, "a run that has ended well", Streams),
        (never_takes_back, "does not take back|it stands still", Streams),
        (obeys_what_the_rules_forbid, "rule", Streams),
        (a_stop_of_what_is_down_changes_nothing, "what a person had stopped", StreamsDown),
        (carries_what_it_cannot_read, "rule|is illegal|what nobody can read", Streams),
        (never_verifies_the_chain, "goes on from two logs", StreamsPutBack),
    ],
)
def test_the_model_check_finds_it(
    fault: Patch, broken: str, machine: type[Streams], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    enough = settings(
        max_examples=1500,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match=broken):
        run_state_machine_as_test(machine, settings=enough)
