"""Whether a holder hangs is asked of Kafka, and for want of Kafka nothing fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.hooks.about_drivers import holder_hangs
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.report import Verdict
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from tests.support.lag_reports import partition, report
from tests.support.story import OLD, RUNNING, fenced, write


@pytest.fixture
def spec(yaml: Path) -> StreamSpec:
    yaml.write_text(yaml.read_text() + "kafka: broker\n")
    return load_spec(yaml)


@pytest.fixture
def measured(hook: StreamHook, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the lag was asked for."""
    asked: list[Any] = []

    def measure(state: Any, heartbeats: Any, moments: Any) -> Any:
        asked.append(moments)
        return report(partition(20, verdict=Verdict.STOP), commit_age=700.0, unread_for={600.0: True})

    monkeypatch.setattr(hook, "_lag", measure)
    return asked


def test_a_holder_that_commits_nothing_hangs(hook: StreamHook, spec: StreamSpec, measured: list[Any]) -> None:
    write(hook.control_log, *RUNNING)
    assert holder_hangs(hook, spec, hook.observe()).startswith(f"{OLD} hangs: enrich has committed nothing")
    assert [moments.ages for moments in measured] == [{600.0}]


def test_where_nobody_holds_or_the_stream_has_no_kafka_nothing_is_measured(
    hook: StreamHook, spec: StreamSpec, measured: list[Any]
) -> None:
    write(hook.control_log, *RUNNING)
    assert holder_hangs(hook, spec.model_copy(update={"kafka": None}), hook.observe()) == ""
    before = hook.observe()
    write(hook.control_log, fenced(OLD))
    assert holder_hangs(hook, spec, hook.observe()) == ""
    assert measured == []
    assert holder_hangs(hook, spec, before) == "", "another one, or nobody, holds by now"


def test_what_cannot_be_measured_is_not_known(
    hook: StreamHook, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hook.control_log, *RUNNING)
    before = hook.observe()

    def fails(*_: Any, **__: Any) -> Any:
        raise StreamError("The connection is not defined.")

    monkeypatch.setattr(hook, "observe", fails)
    assert holder_hangs(hook, spec, before) == ""
