"""Streams with their control logs in Kafka topics, the watch's own look at them, and a driver's own heartbeats.

A stream has the log of four deployments, its saved state, and the heartbeats of two drivers. A look is
`monitoring.folder_look`, in a fresh process, as a task is one, and not the first: each stream has a sample, and eight
heartbeats since. No lag is measured; for that other requests are sent. Nobody beats meanwhile, so all heartbeats count
as fresh; and nothing has a deadline, or a slow machine would measure less.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

from kafka import KafkaProducer

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message, topic_name
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.saved_state import dump
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.control_client import ControlClient
from benchmarks.fresh import run
from benchmarks.open_log import life
from devstack.kafka_cluster import KafkaCluster

HEAP = "1g"
# Those of the first four deployments; the fourth holds.
RECORDS = 29
DRIVERS = ("orders-2-1-4-00000004.0000000a", "orders-2-1-3-00000003.0000000a")
# More than a reader looks at first for an index: see `topic_reader.TAILS`.
BEATS = 8
# Drivers that beat side by side.
WIDTH = 8
ENDS = {"orders": {str(partition): 1_000_000 + partition for partition in range(12)}}
BEAT = Heartbeat(
    phase="running",
    queries=tuple(QueryProgress(name, f"/data/checkpoints/{name}", "kafka", "a" * 36, 7, 1.5, 200, 133.0, "", (ENDS,))
                  for name in ("enrich", "totals")),
    host="worker-1",
    executor_hosts=("worker-1", "worker-2"),
)  # fmt: skip
PREFIX = "looks"
# What the YAML of a stream says.
SPEC = {
    "application": "apps/orders.py",
    "version": "1.0",
    "cluster": "spark_here",
    "control": f"kafka://kafka_here/{PREFIX}",
    "storage": "file:///releases",
}


class Recorder:
    """Notes what a store writes to a topic, so that it can be sent to many at once; implements `Topic`."""

    name = "a topic to be"

    def __init__(self, topic_id: str) -> None:
        self._id = topic_id
        self.messages: list[Message] = []

    def topic_id(self) -> str:
        """Return the id of the topic that the messages are for."""
        return self._id

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Note a message."""
        self.messages.append(Message(len(self.messages), key, value, dict(headers)))
        return len(self.messages) - 1

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return what was noted."""
        return Fetched(tuple(self.messages[offset:]), len(self.messages), len(self.messages))

    def check_same(self) -> None:
        """Nothing to do."""


def stream(topic_id: str) -> list[Message]:
    """Return the messages of a stream's topic: its records and its saved state."""
    topic = Recorder(topic_id)
    store = TopicStore(topic, "orders")
    state = StreamState()
    for seq, record in enumerate(islice(life(), RECORDS), start=1):
        written = record.numbered(seq, state.nonce)
        store.create(seq, written.to_json())
        state = fold([written], state)
        if seq == RECORDS - 5:
            store.put_saved_state(dump(state))
    return topic.messages


@contextmanager
def control_root(kafka: KafkaCluster) -> Iterator[TopicRoot]:
    """Make the control root of the streams."""
    # Or of each topic it would be said that it is on one broker only.
    warnings = logging.getLogger(topic_setup.__name__)
    warnings.setLevel(logging.ERROR)
    root = TopicRoot(SPEC["control"], "kafka_here", kafka.extra, PREFIX)
    try:
        root.make()
        yield root
    finally:
        root.close()
        warnings.setLevel(logging.NOTSET)


def make_streams(kafka: KafkaCluster, root: TopicRoot, first: int, last: int) -> list[ControlLog]:
    """Make the topics of the streams from number `first` to before `last`, and return their logs, as drivers open them.

    Each has had the heartbeats of its two drivers, of which the second has ended.
    """
    names = [f"s{number:04d}" for number in range(first, last)]
    # One after the other: what is sent again must not come behind later messages.
    producer = KafkaProducer(
        bootstrap_servers=kafka.servers, enable_idempotence=False, max_in_flight_requests_per_connection=1, linger_ms=5
    )
    with kafka.client() as client:
        for begin in range(0, len(names), 100):
            _make_topics(client, producer, [topic_name(PREFIX, name) for name in names[begin : begin + 100]])
    producer.close()
    logs = [ControlLog(root.store(name), name) for name in names]
    for driver in DRIVERS:
        beat(logs, 1, driver)
    return logs


def _make_topics(client: KafkaClient, producer: KafkaProducer, names: Sequence[str]) -> None:
    settings = {**SETTINGS, "min.insync.replicas": "1"}
    wanted = {name: {"num_partitions": 1, "replication_factor": 1, "configs": settings} for name in names}
    client._admin.create_topics(wanted, wait_for_metadata=True)
    sent = [
        producer.send(name, each.value, each.key, headers=list(each.headers.items()), partition=0)
        for name, described in client.topics(names).items()
        for each in stream(described["topic_id"].hex)
    ]
    for future in sent:
        future.get(60)


def beat(logs: Sequence[ControlLog], times: int = BEATS, driver: str = DRIVERS[0]) -> list[float]:
    """Let the driver of each stream renew its lease so many times; return the seconds that each time took."""

    def one(log: ControlLog) -> list[float]:
        control, seconds = ControlClient(log, driver), []
        for _ in range(times):
            began = time.perf_counter()
            control.renew(_beat)
            seconds.append(time.perf_counter() - began)
        return seconds

    with ThreadPoolExecutor(WIDTH) as pool:
        return [each for found in pool.map(one, logs) for each in found]


def _beat(state: StreamState) -> Heartbeat:
    now = time.time()
    return replace(BEAT, counter=round(now * 1000), at=now, seq=state.seq)


def look(kafka: KafkaCluster, size: int) -> Mapping[str, Any]:
    """Look once at the first so many streams; every one must be well, or it would be another look.

    :return: CPU seconds until the look's `start`, of the `look` and of the `broker` meanwhile, `seconds` of the look,
        and the `bytes` of messages that it has read.
    """
    connections = {
        "AIRFLOW_CONN_KAFKA_HERE": json.dumps({"conn_type": "kafka", "extra": kafka.extra}),
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    found: Mapping[str, Any] = run("topic_look", json.dumps(SPEC), size, kafka.pid(1), **connections)
    summary = found["summary"]
    if summary["looked"] != size or summary["unanswered"] or summary["incidents"] or found["revive"]:
        raise SystemExit(f"a look at {size} streams found what is not there: {found}")
    return found
