"""The strategy `restart` stops the old release first; any other leaves it running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.runbook.upgrade import StopFirstOperator
from airflow_stream_provider.spec.stream import Strategy, StreamSpec
from tests.support.control_root import log_of
from tests.support.story import OLD, RUNNING
from tests.support.tasks import run, spec_in, waits


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return spec_in(tmp_path)


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    return log_of(spec.control, *RUNNING)


def test_restart_asks_the_holder_to_stop(spec: StreamSpec, log: ControlLog) -> None:
    waits(StopFirstOperator(task_id="t", stream=spec, strategy="restart"))
    request = log.refresh().open_request
    assert request is not None
    assert (request.source, request.to) == (OLD, None)


@pytest.mark.parametrize("strategy", ["handover", "", "Restart"])
def test_any_other_strategy_leaves_it_running(spec: StreamSpec, log: ControlLog, strategy: str) -> None:
    with pytest.raises(AirflowSkipException, match="runs until the new one takes over"):
        run(StopFirstOperator(task_id="t", stream=spec, strategy=strategy))
    assert log.refresh().open_request is None


def test_with_an_approval_only_the_yaml_stops_the_old_release_before_anybody_is_asked(
    spec: StreamSpec, log: ControlLog
) -> None:
    """Others than those who may edit it may be allowed to write XCom, or to mark `check` as a success."""
    for declared in ("handover", "restart"):
        upgrade = spec.upgrade.model_copy(update={"approval": True, "strategy": Strategy(declared)})
        task = StopFirstOperator(
            task_id="t", stream=spec.model_copy(update={"upgrade": upgrade}), strategy=Strategy.RESTART.value
        )
        expected: Any = AirflowFailException if declared == "handover" else TaskDeferred
        with pytest.raises(expected):
            run(task)
        assert (log.refresh().open_request is None) is (declared == "handover")


def test_the_forms_strategy_is_a_template() -> None:
    assert "strategy" in StopFirstOperator.template_fields
    assert set(StopFirstOperator.template_fields) >= {"deployment", "reason"}
