"""The model check finds an agent that breaks the protocol: each of these has one fault."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.runtime.acts import Acts
from airflow_stream_provider.runtime.agent import Agent
from tests.support.simulation.driver import Queries
from tests.support.simulation.machine import Streams

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


def never_takes_back(patch: pytest.MonkeyPatch) -> None:
    view = Agent._view
    patch.setattr(Agent, "_view", lambda self, state: replace(view(self, state), released_for=None))


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        (released_before_the_queries_stop, "rule 1"),
        (failed_without_stopping_the_queries, "rule 1"),
        (never_paused, "rule 2"),
        (never_takes_back, "does not take back|it stands still"),
    ],
)
def test_the_model_check_finds_it(fault: Patch, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    enough = settings(
        max_examples=400,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match=broken):
        run_state_machine_as_test(Streams, settings=enough)
