"""Where a control log may live, and why not elsewhere."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.spec.fields import TopicAddress, check_control_url


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
