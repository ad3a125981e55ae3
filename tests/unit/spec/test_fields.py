"""One field at a time; tests/unit/spec/test_stream.py has them in a file, with the line of an error."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.fields import (
    Count,
    Seconds,
    StreamName,
    Text,
    TopicAddress,
    VariableName,
    check_control_url,
)


@pytest.mark.parametrize(
    ("written", "found"),
    [("90s", 90.0), (" 10m ", 600.0), ("1h30m", 5400.0), ("0.5d", 43200.0), ("60", 60.0), (7, 7.0), (2.5, 2.5)],
)
def test_a_duration_is_read_in_seconds(written: Any, found: float) -> None:
    assert TypeAdapter(Seconds).validate_python(written) == found


@pytest.mark.parametrize(
    ("kind", "written", "sentence"),
    [
        (Seconds, "10 parsecs", "is not a duration: write it like 90s, 10m or 1h30m"),
        (Seconds, True, "is not a duration"),
        (Seconds, "1:30", "is not a duration"),
        (Seconds, [60], "is not a duration"),
        (Seconds, -1, "greater than or equal to 0"),
        (Seconds, 3651 * 86400, "less than or equal to 315360000"),
        (Count, 2**63, "less than or equal to"),
        (Text, "", "should have at least 1"),
        (VariableName, "AIRFLOW_HOME", "Those that begin with AIRFLOW_ belong to Airflow"),
        (StreamName, "../orders", "cannot be a stream's name"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(kind: Any, written: Any, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(written)
    assert sentence in str(caught.value)


def test_a_url_in_kafka_names_a_connection_and_a_prefix() -> None:
    assert TopicAddress.parse("kafka://kafka_default/prod.streams") == TopicAddress("kafka_default", "prod.streams")
    assert TopicAddress.parse("file:///data") is None
    check_control_url("kafka://kafka_default/streams")
    check_control_url("file:///data/streams")


@pytest.mark.parametrize(
    "url",
    [
        "kafka://kafka_default",
        "kafka://kafka_default/",
        "kafka:///streams",
        "kafka://user:secret@broker/streams",
        "kafka://broker:9092/streams",
        "kafka://k/a/b",
        "kafka://k/a b",
        "kafka://k/streams?x=1",
        "kafka://k/" + "p" * 200,
        "kafka://k/..",
    ],
)
def test_anything_else_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(SpecError) as found:
        check_control_url(url)
    assert "secret" not in str(found.value)
    assert "kafka://" in str(found.value)


@pytest.mark.parametrize(
    "url", ["s3://bucket/x", "s3a://bucket/x", "gs://bucket/x", "abfss://c@a.dfs.core.windows.net/x"]
)
def test_object_stores_are_refused_with_the_reason(url: str) -> None:
    with pytest.raises(SpecError, match=r"No control log can live on .*exclusively"):
        check_control_url(url)


@pytest.mark.parametrize("url", ["hdfs://nn/x", "data/streams", "ftp://x/y"])
def test_what_nobody_knows_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="is not file:///an/absolute/folder"):
        check_control_url(url)
