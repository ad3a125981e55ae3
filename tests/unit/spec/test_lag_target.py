"""The target that a DAG's author names."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.lag_target import lag_target
from airflow_stream_provider.spec.stream import StreamSpec


def spec(kafka: str | None = None) -> StreamSpec:
    fields = {"name": "orders", "application": "a.py", "version": "2", "cluster": "c", "control": "file:///x"}
    return StreamSpec.model_validate(fields | ({"kafka": kafka} if kafka else {}))


def test_a_target_is_a_stream_or_a_group() -> None:
    assert lag_target(spec("k")) == LagTarget("k", "orders", "file:///x")
    assert lag_target(None, "g", "k") == LagTarget("k", group="g")


@pytest.mark.parametrize(
    ("stream", "group", "kafka", "says"),
    [
        (False, "", "", "Neither a stream nor a consumer group"),
        (True, "g", "k", "Both the stream orders and the group g"),
        (False, "g", "", "No Kafka connection is given for the group g"),
        (True, "", "", "names no Kafka connection"),
    ],
)
def test_a_target_is_one_stream_or_one_group(stream: bool, group: str, kafka: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        lag_target(spec() if stream else None, group, kafka)
