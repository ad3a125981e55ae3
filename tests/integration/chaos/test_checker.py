"""The check of a whole run on a real broker. Only Spark is replaced: the test writes the output and the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos.checker import check
from chaos.folder_log import FolderLog
from chaos.producer import JOURNAL, SurvivingProducer
from chaos.recorder import Evidence
from chaos.report import Report
from devstack.audit import TopicRecord, end_offsets, read_topic
from devstack.checkpoint_trees import commit, plan
from devstack.checkpoint_trees import kafka as offsets
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.chaos_facts import HARMLESS
from tests.support.control_root import new_log
from tests.support.story import OLD, RUNNING, write

TOPICS = {"orders": 2, "orders-enriched": 2, "order-totals": 2}
QUERIES = ("enrich", "totals")


class PretendedStream:
    """Writes what the stream would write: all of the input in one batch."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self.servers = kafka.servers
        self.folder = folder
        self.checkpoints = {query: folder / "checkpoints" / query for query in QUERIES}
        self.log: ControlLog = new_log((folder / "control").as_uri())

    def run(self, enriched: Callable[[list[TopicRecord]], list[TopicRecord]] = list) -> None:
        """Hold the stream and run its batch; `enriched` says which records get into the output."""
        write(self.log, *RUNNING)
        self.log.beat(OLD, Heartbeat(counter=1, phase="running"))
        for folder in self.checkpoints.values():
            plan(folder, 0, offsets(orders=end_offsets(self.servers, "orders")))
        records = list(read_topic(self.servers, "orders"))
        totals: dict[str, dict[str, Any]] = {}
        producer = KafkaProducer(bootstrap_servers=self.servers)
        for record in enriched(records):
            row = json.loads(record.value)
            value = json.dumps({**row, "euros": row["cents"] / 100}).encode()
            producer.send("orders-enriched", key=str(row["id"]).encode(), value=value)
        for record in records:
            row = json.loads(record.value)
            total = totals.setdefault(row["customer"], {"customer": row["customer"], "orders": 0, "cents": 0})
            total["orders"] += 1
            total["cents"] += row["cents"]
        for customer, total in totals.items():
            producer.send("order-totals", key=customer.encode(), value=json.dumps(total).encode())
        producer.close()
        for folder in self.checkpoints.values():
            commit(folder, 0)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[PretendedStream]:
    """A broker with orders, each of them acknowledged."""
    with KafkaCluster(tmp_path / "kafka") as kafka:
        with kafka.client() as client:
            create_topics(client, TOPICS)
        with SurvivingProducer(kafka.servers, "orders", 500, tmp_path / JOURNAL) as producer:
            wait_for("orders", lambda: producer.sent > 1500)
            producer.stop()
        yield PretendedStream(kafka, tmp_path)


def checked(stream: PretendedStream, enriched: Callable[[list[TopicRecord]], list[TopicRecord]] = list) -> Report:
    log = FolderLog(folder_of(stream.log))
    with Evidence(stream.servers, stream.checkpoints, log.folder / "releases", log, stream.folder) as evidence:
        assert evidence.unread().startswith("enrich has committed {} of orders")
        stream.run(enriched)
        wait_for("everything to be recorded", lambda: not evidence.unread())
    evidence.look()
    return check(evidence, HARMLESS, seed=1, minutes=0.1, commit="abc")


def test_a_stream_that_did_everything_right(stream: PretendedStream) -> None:
    report = checked(stream)
    assert report.problems == ()
    assert report.produced > 1500
    assert (report.lost, report.doubled, report.max_holders, report.wrong_totals) == (0, 0, 1, 0)


def test_a_stream_that_lost_one_order_and_wrote_another_twice(stream: PretendedStream) -> None:
    report = checked(stream, lambda records: [*records[1:], records[-1]])
    assert (report.lost, report.doubled, report.doubled_unexplained) == (1, 1, 1)
    lost, doubled = report.problems
    assert lost.startswith("1 orders were lost")
    assert "nothing cut off batch 0" in doubled
