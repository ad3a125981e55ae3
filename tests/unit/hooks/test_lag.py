from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.hooks import lag
from airflow_stream_provider.hooks.lag import check_kafka, committed_offsets, look_at_lag
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import LagLook, Moments
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from tests.support.lag_reports import partition, report
from tests.support.story import OLD

TARGET = LagTarget("k", group="g")


def test_a_look_has_a_report_or_the_reason_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = report(partition(5))
    asked: list[Any] = []

    def measure(target: LagTarget, extra: Any, roots: Any, moments: Moments) -> Any:
        asked.append((target, extra, moments))
        if len(asked) > 1:
            raise BrokerUnreachable("Kafka does not answer.")
        return found

    monkeypatch.setattr(lag, "kafka_extra", lambda kafka: {"of": kafka})
    monkeypatch.setattr(lag, "measure_lag", measure)
    assert look_at_lag(TARGET, Moments()) == LagLook(found.at, found)
    assert asked == [(TARGET, {"of": "k"}, Moments())]
    away = look_at_lag(TARGET, Moments())
    assert (away.report, away.problem) == (None, "Kafka does not answer.")


def test_a_connection_that_is_missing_is_an_error() -> None:
    with pytest.raises(ConnectionUnavailable, match="The Airflow connection 'k' cannot be read"):
        look_at_lag(TARGET, Moments())


def test_a_kafka_is_checked_by_asking_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionUnavailable, match="The Airflow connection 'k' cannot be read"):
        check_kafka("k")
    away = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_K", json.dumps(away))
    with pytest.raises(BrokerUnreachable):
        check_kafka("k")


def test_what_is_committed_is_read_from_the_checkpoint(hook: StreamHook, holding: None) -> None:
    look = hook.observe()
    assert committed_offsets("orders", hook.control, look.state, look.heartbeats) == {"out": [{"orders": {0: 20}}]}
    hook.control_log.beat(OLD, Heartbeat(queries=(QueryProgress("other"),)))
    assert committed_offsets("orders", hook.control, look.state, hook.observe().heartbeats).keys() == {"out"}
