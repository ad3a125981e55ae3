"""How many records a change on purpose leaves out or repeats; integration/runtime/test_positions.py asks Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.kafka_source import MAX_TOPIC_IDS, KafkaIds, KafkaSource
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.runtime import kafka_positions as module
from airflow_stream_provider.runtime.describe import _kafka_source
from airflow_stream_provider.runtime.kafka_positions import Log, ask_kafka, begins, goes_on
from airflow_stream_provider.runtime.writer_spec import WriterSpec
from devstack import checkpoint_trees as trees

SOURCE = KafkaSource("subscribe", "orders", ("a:9092",))
# Partition 2 is not in the checkpoint.
LOGS = {("orders", 0): Log(10, 60), ("orders", 1): Log(0, 40), ("orders", 2): Log(5, 8)}


def query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: dict[tuple[str, int], Log] | None = LOGS, **options: str
) -> Any:
    root = trees.new(tmp_path / "q")
    trees.plan(root, 0, trees.kafka(orders={0: 50, 1: 20}))
    trees.commit(root, 0)
    monkeypatch.setattr(module, "kafka_relations", lambda query: [SimpleNamespace(extraOptions=lambda: options)])
    monkeypatch.setattr(module, "_logs", lambda query, committed: [(SOURCE, logs)])
    return SimpleNamespace(
        label="q",
        checkpoint=str(root),
        kafka_ids={SOURCE.servers: KafkaIds("one-id")},
        writer_spec=WriterSpec(),
    )


def asked(
    root: Path, monkeypatch: pytest.MonkeyPatch, topics: list[str], options: dict[str, str], *, batches: bool = True
) -> tuple[list[str], Any]:
    """Ask a Kafka that has these topics for the ids of a query, which has read them; return what was asked for."""
    trees.new(root)
    if batches:
        trees.plan(root, 0, trees.kafka(**{topic: {0: 1} for topic in topics}))
        trees.commit(root, 0)
    wanted: list[str] = []
    given = {"kafka.bootstrap.servers": "a:9092", **options}
    relation = SimpleNamespace(extraOptions=lambda: given)

    def read(names: Any, admin: Any) -> KafkaIds:
        wanted.extend(names)
        return KafkaIds("one-id", {topic: "x" * 22 for topic in names if topic in topics})

    monkeypatch.setattr(module, "kafka_relations", lambda query: [relation])
    monkeypatch.setattr(module, "with_admin", lambda relation, ask: ask(None))
    monkeypatch.setattr(module, "_read_ids", read)
    made: Any = SimpleNamespace(label="q", checkpoint=str(root), kafka_ids={})
    assert set(ask_kafka(made)) == set(topics if batches else ())
    return wanted, _kafka_source(relation, made.kafka_ids)


def test_kafka_is_asked_for_topics_and_not_for_pieces_of_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (options, new, begun) in enumerate(
        (
            ({"subscribe": "orders, added"}, ["orders", "added"], ["orders", "added"]),
            ({"assign": '{"orders":[0,1],"added":[0]}'}, ["orders", "added"], ["orders", "added"]),
            # What a pattern will read nobody knows before its first batch.
            ({"subscribePattern": "orders|a{1,2}"}, [], ["orders", "returns"]),
        )
    ):
        read, root = ["orders", "returns"], tmp_path / str(number)
        assert asked(root / "new", monkeypatch, read, options, batches=False)[0] == new
        assert asked(root / "begun", monkeypatch, read, options)[0] == begun


def test_the_checkpoint_of_a_query_without_kafka_is_not_read_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "kafka_relations", lambda query: [])
    made: Any = SimpleNamespace(label="q", checkpoint=str(tmp_path / "q"), kafka_ids={})
    trees.plan(trees.new(tmp_path / "q"), 0, "no offsets")
    (tmp_path / "q" / "offsets" / "0").write_text("damaged")
    assert not ask_kafka(made)


def test_a_source_of_very_many_topics_does_not_make_the_record_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, known in ((MAX_TOPIC_IDS, MAX_TOPIC_IDS), (3000, 0)):
        topics = [f"{number:0249d}" for number in range(count)]
        wanted, source = asked(tmp_path / str(count), monkeypatch, topics, {"subscribePattern": ".*"})
        assert (len(wanted), len(source.topic_ids), source.cluster) == (known, known, "one-id")
        record = Record(Kind.STANDBY, {"queries": [{"kafka_sources": [source.to_json()]}] * 6})
        assert Record.from_json(record.to_json(), 1).kind == Kind.STANDBY


def test_what_lies_before_the_offsets_of_a_checkpoint_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = goes_on(query(tmp_path, monkeypatch))
    # 40 and 20 before; 10, 20, and all of the partition that it does not know.
    assert "60 records lie before them and are not read, and 33 are read." in said
    assert "beyond the end" not in said
    (said,) = goes_on(query(tmp_path / "2", monkeypatch, {("orders", 0): Log(0, 30)}))
    assert "30 records lie before them and are not read, and 0 are read." in said
    assert "The offsets of orders-0 lie beyond the end there." in said
    (said,) = goes_on(query(tmp_path / "3", monkeypatch, None))
    assert "is not known: Kafka did not say" in said


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"startingOffsets": "earliest"}, "93 records are there to read, 60 of them once more, and 0 that were not"),
        ({}, "0 records are there to read, 0 of them once more, and 33 that were not"),
        (
            {"STARTINGOFFSETS": json.dumps({"orders": {"0": 55, "1": 15, "2": -1}})},
            "30 records are there to read, 5 of them once more, and 8 that were not",
        ),
        # Kafka does not have the first of them any more.
        (
            {"startingOffsets": '{"orders": {"0": 3, "1": -2, "2": -2}}'},
            "93 records are there to read, 60 of them once more, and 0 that were not",
        ),
        ({"startingTimestamp": "1764000000000"}, "is not counted: it begins by a time"),
    ],
)
def test_where_a_new_checkpoint_begins_is_held_against_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], found: str
) -> None:
    made = query(tmp_path, monkeypatch, LOGS, **options)
    first, said = begins(made, {"checkpoint": made.checkpoint})
    assert "what it reads once more, it writes once more" in first
    assert found in said


def test_what_is_in_another_kafka_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = query(tmp_path, monkeypatch, startingOffsets="earliest")
    former = {"checkpoint": made.checkpoint, "kafka_sources": [{**SOURCE.to_json(), "cluster": "two-id"}]}
    assert "is not counted: it is in another Kafka than before" in begins(made, former)[1]
    former = {"checkpoint": made.checkpoint, "kafka_sources": [{**SOURCE.to_json(), "cluster": "one-id"}]}
    assert "93 records" in begins(made, former)[1]


def test_that_a_function_may_know_the_ids_of_batches_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = query(tmp_path, monkeypatch)
    made.writer_spec.foreach_batch = lambda batch, number: None
    assert "such as with Delta's txnAppId, is not seen" in begins(made, {"checkpoint": made.checkpoint})[-1]
