"""What is found before an upgrade: with a real broker, a checkpoint, and this machine's processes as the cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.checkpoint.owner import claim
from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.preflight import Finding, preflight
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from devstack import checkpoint_trees as trees
from devstack.kafka_cluster import KafkaCluster
from tests.support.snapshots import UPGRADED
from tests.support.story import write

RECORDS = 100


class Stream:
    """A stream that a driver holds by its control log, and whose query has read a topic up to an offset."""

    def __init__(self, folder: Path, topic: str, committed: int, **options: str) -> None:
        self.checkpoint = trees.new(folder / "checkpoint")
        trees.plan(self.checkpoint, 0, trees.kafka(**{topic: {0: committed}}))
        trees.commit(self.checkpoint, 0)
        for name in ("streams", "apps"):
            (folder / name).mkdir()
        (folder / "apps" / "a.py").write_text("x = 1\n")
        url = f"file://{folder / 'control'}"
        (folder / "streams" / "orders.yaml").write_text(
            f"name: orders\napplication: apps/a.py\nversion: v1\ncluster: here\nkafka: kafka_test\ncontrol: {url}\n"
        )
        make_root(url)
        self.spec = load_spec(folder / "streams" / "orders.yaml")
        self.hook = StreamHook.of(self.spec)
        self.hook.create()
        said = {
            "name": "lines",
            "checkpoint": str(self.checkpoint),
            "sources": [f"kafka:subscribe={topic}"],
            "source_options": [options],
        }

        def told(each: Record) -> Record:
            return replace(each, fields={**each.fields, "queries": [said]}) if each.kind == "standby" else each

        write(self.hook.control_log, *map(told, UPGRADED))
        claim(str(self.checkpoint), "orders", url, self.hook.control_log.store.origin())

    def found(self, *changed: str) -> list[Finding]:
        requested = RequestedRelease.of(self.spec, changed_checkpoints=changed)
        return list(preflight(self.hook, requested, self.hook.observe()))


@pytest.fixture
def stream(kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stream]:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", json.dumps({"conn_type": "kafka", "extra": dict(kafka.extra)}))
    monkeypatch.setenv("AIRFLOW_CONN_HERE", json.dumps({"conn_type": "spark", "host": "local[1]"}))

    def made(topic: str, committed: int, **options: str) -> Stream:
        return Stream(tmp_path, topic, committed, **options)

    return made


def send(kafka: KafkaCluster, topic: str, age: float = 0.0) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for number in range(RECORDS):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=round((time.time() - age) * 1000))
    producer.close()


def test_topics_are_audited_and_nothing_refuses_while_kafka_has_what_is_read_next(
    kafka: KafkaCluster, new_topic: Callable[..., str], stream: Callable[..., Stream]
) -> None:
    topic = new_topic()
    send(kafka, topic)
    found = stream(topic, 50).found()
    assert [str(each) for each in found if each.refuses] == []
    audited = [each.text for each in found if each.text.startswith("Audit: ")]
    assert [text for text in audited if f"topic {topic}" in text], "it has one replica"
    assert len(audited) == len(found)


@pytest.mark.parametrize("options", [{}, {"failOnDataLoss": "false"}], ids=["fails on loss", "goes on"])
def test_records_that_kafka_has_deleted_before_they_were_read(
    kafka: KafkaCluster,
    client: KafkaClient,
    new_topic: Callable[..., str],
    stream: Callable[..., Stream],
    options: dict[str, str],
) -> None:
    topic = new_topic()
    send(kafka, topic)
    client._admin.delete_records({TopicPartition(topic, 0): 60})
    made = stream(topic, 50, **options)
    text = (
        f"Kafka has deleted 10 records that the query lines has not read: of {topic}-0 it needs offset 50 next, and "
        "the log begins at 60."
    )
    [found] = [each for each in made.found() if each.text.startswith(text)]
    assert found.refuses is not bool(options)
    assert not [each for each in made.found(str(made.checkpoint)) if each.text.startswith(text)], "it is on purpose"
    # Who asks for a roll-back is told the same.
    foreseen = look_ahead(made.hook, Operation.ROLL_BACK)
    assert not foreseen.refused
    assert text in foreseen.reads_again
    assert text not in look_ahead(made.hook, Operation.STOP).reads_again


def test_what_kafka_deletes_soon_is_shown(
    kafka: KafkaCluster, new_topic: Callable[..., str], stream: Callable[..., Stream]
) -> None:
    topic = new_topic(retention_ms=3_600_000)
    send(kafka, topic, age=3000.0)
    [found] = [each for each in stream(topic, 50).found() if "needs next in" in each.text]
    assert found.text.startswith("Kafka deletes the first records that the query lines needs next in ")
    assert not found.refuses


def test_a_kafka_that_is_away_hinders_no_foresight(
    kafka: KafkaCluster, new_topic: Callable[..., str], stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stream(new_topic(), 0)
    nowhere = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", json.dumps(nowhere))
    foreseen = look_ahead(StreamHook.of(made.spec), Operation.ROLL_BACK)
    assert (foreseen.refused, bool(foreseen.will)) == ("", True)
