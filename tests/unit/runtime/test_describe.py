"""What is said of a query of which Spark has told nothing yet, and whose input it cleans, by plans that are made up.

tests/integration/runtime/test_describe.py asks real ones.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.runtime.describe import cleans_input, progress
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from tests.support.real_run import real_run, writer
from tests.support.scala_sequence import Items


def test_a_query_that_the_script_has_stopped_has_ended() -> None:
    watcher = SimpleNamespace(script_waits=lambda: None, query_ended=lambda query: None)
    query = ManagedQuery(watcher, writer("/data/out"), real_run)
    sink = query.writer_spec.sink
    assert progress(query) == QueryProgress("out", "/data/out", sink)
    query.stop()
    assert progress(query) == QueryProgress("out", "/data/out", sink, ended=True)


class Pairs(list[Any]):
    """A Scala map's iterator, as py4j shows it."""

    def hasNext(self) -> bool:
        return bool(self)

    def next(self) -> Any:
        key, value = self.pop(0)
        return SimpleNamespace(_1=lambda: key, _2=lambda: value)


def leaf(kind: str, **methods: Any) -> Any:
    return SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind), **methods)


def files(**options: str) -> Any:
    """A file source, with option names as the script wrote them."""
    source = SimpleNamespace(options=lambda: SimpleNamespace(iterator=lambda: Pairs(options.items())))
    return leaf("StreamingRelation", dataSource=lambda: source)


def second(**options: str) -> Any:
    """A source of Spark's second interface, whose map takes names in any case."""
    lower = {name.lower(): value for name, value in options.items()}
    given = SimpleNamespace(get=lambda name: lower.get(name.lower()))
    return leaf("StreamingRelationV2", extraOptions=lambda: given)


def query(*leaves: Any) -> Any:
    plan = SimpleNamespace(collectLeaves=lambda: Items(leaves))
    frame = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: plan)))
    return SimpleNamespace(writer=SimpleNamespace(_df=frame))


@pytest.mark.parametrize(
    ("leaves", "cleans"),
    [
        ([files(path="/in", cleanSource="delete")], True),
        ([files(CLEANSOURCE="Archive", sourceArchiveDir="/old")], True),
        ([second(subscribe="orders"), files(path="/in", cleansource="delete")], True),
        ([second(cleanSource="delete")], True),
        ([files(path="/in")], False),
        ([files(path="/in", cleanSource="OFF")], False),
        ([second(subscribe="orders"), leaf("LogicalRelation")], False),
    ],
)
def test_a_source_that_cleans_its_input_is_seen(leaves: list[Any], cleans: bool) -> None:
    assert cleans_input(query(*leaves)) is cleans


def test_offsets_of_another_source_are_no_kafka_offsets_whatever_their_form() -> None:
    """Event Hubs writes {hub: {partition: number}}, too; they would be committed to the stream's consumer group."""
    described = [
        ("org.apache.spark.sql.eventhubs.EventHubsSource@7", {"plant": {"0": 9}}),
        ("KafkaV2[Subscribe[orders]]", {"orders": {"0": 5}}),
        ("KafkaSourceV1[Subscribe[returns]]", {"returns": {"0": 6}}),
    ]
    body = {
        "id": "an-id",
        "batchId": 4,
        "durationMs": {"addBatch": 1, "triggerExecution": 2},
        "sources": [{"description": who, "endOffset": offset} for who, offset in described],
    }
    watcher = SimpleNamespace(script_waits=lambda: None, query_ended=lambda query: None)
    query: Any = ManagedQuery(watcher, writer("/data/out"), real_run)
    last = SimpleNamespace(json=lambda: json.dumps(body))
    query.real = SimpleNamespace(_jsq=SimpleNamespace(lastProgress=lambda: last))
    assert progress(query).committed == ({"orders": {"0": 5}}, {"returns": {"0": 6}})
