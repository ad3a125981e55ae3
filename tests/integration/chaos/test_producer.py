"""The producer on a real broker that is killed, started again and frozen under it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.producer import JOURNAL, Produced, SurvivingProducer, read_journal
from devstack.audit import read_topic
from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics

RATE = 200


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A broker of the test's own, with the input topic."""
    with KafkaCluster(tmp_path / "kafka") as cluster:
        with cluster.client() as client:
            create_topics(client, {"orders": 2})
        yield cluster


def places(kafka: KafkaCluster) -> dict[int, list[tuple[int, int]]]:
    """Return where each order is in the topic."""
    found: dict[int, list[tuple[int, int]]] = {}
    for record in read_topic(kafka.servers, "orders"):
        found.setdefault(json.loads(record.value)["id"], []).append((record.partition, record.offset))
    return found


def written(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def check(kafka: KafkaCluster, produced: Produced, sent: int) -> None:
    """Every order is acknowledged or unknown, and every acknowledged one is where Kafka said, once."""
    there = places(kafka)
    assert produced.acknowledged.keys() | produced.unknown == set(range(sent))
    assert {number: [place] for number, place in produced.acknowledged.items()} == {
        number: there.get(number) for number in produced.acknowledged
    }
    assert there.keys() <= set(range(sent))


@pytest.mark.system
def test_a_broker_that_is_killed_and_started_again_loses_no_acknowledged_order(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    journal = tmp_path / JOURNAL
    with SurvivingProducer(kafka.servers, "orders", RATE, journal) as producer:
        wait_for("orders to be sent", lambda: producer.sent > 2 * RATE)
        os.kill(kafka.pid(1), signal.SIGKILL)
        killed_at = producer.sent
        wait_for("orders to be sent meanwhile", lambda: producer.sent > killed_at + 2 * RATE)
        kafka.start(1)
        back_at = producer.sent
        wait_for("orders to be sent afterwards", lambda: producer.sent > back_at + 2 * RATE)
        sent = producer.stop()
    produced = read_journal(journal)
    check(kafka, produced, sent)
    # The broker was away for less than the producer's patience.
    assert produced.unknown == frozenset()
    assert max(produced.acknowledged) > back_at


@pytest.mark.system
def test_an_order_whose_time_runs_out_is_unknown_and_may_be_there(kafka: KafkaCluster, tmp_path: Path) -> None:
    journal = tmp_path / JOURNAL
    with SurvivingProducer(kafka.servers, "orders", RATE, journal, patience=2.0) as producer:
        wait_for("orders to be sent", lambda: producer.sent > 2 * RATE)
        os.kill(kafka.pid(1), signal.SIGSTOP)
        try:
            frozen_at, began = producer.sent, time.monotonic()
            wait_for("time to run out", lambda: time.monotonic() - began > 8.0)
        finally:
            os.kill(kafka.pid(1), signal.SIGCONT)
        woken_at = producer.sent
        wait_for("orders to be sent afterwards", lambda: producer.sent > woken_at + 5 * RATE)
        sent = producer.stop()
    produced = read_journal(journal)
    check(kafka, produced, sent)
    assert produced.unknown
    assert min(produced.unknown) >= frozen_at - RATE
    assert max(produced.acknowledged) > woken_at
