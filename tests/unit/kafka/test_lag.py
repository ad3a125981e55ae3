from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp

from airflow_stream_provider.kafka.connect import client_settings
from airflow_stream_provider.kafka.lag import Lag, is_kafka, measure
from airflow_stream_provider.model.errors import SpecError

LATEST = -1


class Broker:
    """Answers ListOffsets for one topic; what the real one says is in the integration tests."""

    def __init__(self, ends: Mapping[int, int], young: Mapping[int, int]) -> None:
        self.answers = {LATEST: ends}
        self.young = young

    def list_partition_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {
            tp: OffsetAndTimestamp(self.answers.get(spec, self.young)[tp.partition], -1, None)
            for tp, spec in wanted.items()
        }


def lag(broker: Broker, committed: Mapping[str, Any], seconds: float | None = None) -> Lag:
    return measure(broker, committed, seconds)  # type: ignore[arg-type]


def test_the_lag_is_that_of_the_slowest_query() -> None:
    broker = Broker({0: 100, 1: 50}, {})
    committed = {"a": [{"t": {"0": 90, "1": 50}}], "b": [{"t": {0: 60, 1: 40}}]}
    assert lag(broker, committed) == Lag(50, None, {"a": 10, "b": 50})


def test_a_commit_ahead_of_the_end_is_no_lag() -> None:
    assert lag(Broker({0: 100}, {}), {"a": [{"t": {"0": 120}}]}).records == 0


@pytest.mark.parametrize(
    ("committed", "young", "late"),
    [
        (99, 100, True),  # one record is older than that and not committed
        (100, 100, False),  # all that is older is committed
        (150, 100, False),
        (200, -1, False),  # no record is that young, and all are committed
        (199, -1, True),
    ],
)
def test_late_is_exact(committed: int, young: int, late: bool) -> None:
    found = lag(Broker({0: 200}, {0: young}), {"a": [{"t": {"0": committed}}]}, 30.0)
    assert found.late is late


def test_a_stream_without_kafka_sources_has_no_lag() -> None:
    assert lag(Broker({}, {}), {"a": []}, 30.0) == Lag(0, False, {"a": 0})


@pytest.mark.parametrize("offsets", [None, "x", {}, {"logOffset": 5}, {"t": {}}, {"t": {"a": 1}}, 7])
def test_other_sources_are_told_apart(offsets: Any) -> None:
    assert not is_kafka(offsets)
    assert is_kafka({"t": {"0": 1}})


def test_a_connection_becomes_settings_of_the_client() -> None:
    extra = {"bootstrap.servers": "a:1,b:2", "security.protocol": "SASL_SSL", "sasl.password": "hunter2"}
    assert client_settings("k", extra) == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_SSL",
        "sasl_plain_password": "hunter2",
    }


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({}, "The Kafka connection 'k' names no broker."),
        ({"bootstrap.servers": "a:1", "socket.magic": "hunter2"}, "settings that are not known here: socket.magic"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused(extra: dict[str, str], sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        client_settings("k", extra)
    assert sentence in str(caught.value)
    assert "hunter2" not in str(caught.value)
