"""Streams in any number on this disk, as drivers leave them: control logs, heartbeats, checkpoints. Nothing runs.

    python -m devstack.many_streams FOLDER SERVERS COUNT MOVING

moves them, until it is killed: each driver beats once a second, and the first MOVING streams commit a batch every ten
seconds.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_stream_provider.checkpoint.owner import claim
from airflow_stream_provider.control import ControlLog, make_root, open_log
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Commit, DriverPhase, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from devstack.checkpoint_trees import commit, kafka, new, plan
from devstack.control_folder import folder_of

QUERIES = ("enrich", "totals")
PARTITIONS = 2
# Upgrades that each stream has had, and batches whose logs its checkpoints still have.
UPGRADES = 5
BATCHES = 30
BATCH_SECONDS = 10.0

YAML = """\
name: {name}
application: apps/{name}.py
version: "1.{upgrades}"
cluster: {cluster}
kafka: {kafka}
control: {control}
lag: {{max_records: 100000, max_seconds: 10m}}
"""


@dataclass
class StoredStream:
    """One of them; it reads one topic.

    :param folder: of all streams; their control root is `control` in it.
    :param servers: bootstrap servers of the Kafka that it reads.
    :param batch: number of its next batch.
    :param upgrades: that it has had, its start among them.
    :param topic: that it reads; default: one of its own name.
    """

    folder: Path
    name: str
    servers: str
    batch: int = 0
    upgrades: int = UPGRADES
    topic: str = ""

    def __post_init__(self) -> None:
        self.topic = self.topic or self.name

    @property
    def control(self) -> str:
        """Its control URL."""
        return (self.folder / "control").as_uri()

    @property
    def log(self) -> ControlLog:
        """Its control log."""
        return open_log(self.control, self.name)

    @property
    def holder(self) -> str:
        """The incarnation that holds it."""
        return f"{self.name}-1-{self.upgrades}-{self.upgrades:08x}.0000000a"

    def yaml(self, cluster: str, connection: str) -> str:
        """Return its YAML; `cluster` and `connection` are the Airflow connections of cluster and Kafka."""
        return YAML.format(
            name=self.name, upgrades=self.upgrades, cluster=cluster, kafka=connection, control=self.control
        )

    def checkpoint(self, query: str) -> Path:
        """Return the checkpoint of one of its queries."""
        return self.folder / "checkpoints" / self.name / query

    def make(self, batches: int = BATCHES) -> None:
        """Write all of it, without syncing."""
        log = open_log(self.control, self.name, create=True)
        state = StreamState()
        for seq, record in enumerate(self._life(), start=1):
            written = record.numbered(seq, state.nonce)
            (folder_of(log) / "log" / f"{seq:020d}.json").write_bytes(written.to_json())
            state = fold([written], state)
        if state.illegal_count or state.holder != self.holder:
            raise ValueError(f"the log of {self.name} is not as it should be: {state.illegal or state.holder}")
        for query in QUERIES:
            root = new(self.checkpoint(query), hashlib.sha256(f"{self.name}{query}".encode()).hexdigest()[:36])
            claim(root.as_uri(), self.name, self.control)
        for _ in range(batches):
            self.commit(time.time() - BATCH_SECONDS * (batches - self.batch))
        log.store.put_heartbeat(self.holder, self.heartbeat(state.seq, 1).to_json())

    def commit(self, at: float | None = None) -> None:
        """Commit a batch of each query."""
        offsets = kafka(**{self.topic: dict.fromkeys(range(PARTITIONS), self.batch)})
        for query in QUERIES:
            plan(self.checkpoint(query), self.batch, offsets)
            commit(self.checkpoint(query), self.batch, at=at)
        self.batch += 1

    def heartbeat(self, seq: int, counter: int, at: float | None = None) -> Heartbeat:
        """Return a heartbeat of its holder; `at`: default now."""
        now, last = time.time() if at is None else at, self.batch - 1
        offsets = {self.topic: {str(partition): last for partition in range(PARTITIONS)}}
        commits = tuple(Commit(now - BATCH_SECONDS * back, offsets) for back in range(9, -1, -1))
        queries = tuple(
            QueryProgress(
                query,
                self.checkpoint(query).as_uri(),
                "kafka",
                batch=last,
                batch_seconds=1.0,
                committed=(offsets,),
                commits=commits,
            )
            for query in QUERIES
        )
        return Heartbeat(counter, now, DriverPhase.RUNNING.value, seq=seq, epoch=self.upgrades, queries=queries)

    def _life(self) -> Iterator[Record]:
        """Yield the records of a stream that was started once and upgraded since."""
        source = KafkaSource(topics=self.topic, servers=tuple(self.servers.split(",")))
        queries = [
            {
                "name": query,
                "checkpoint": self.checkpoint(query).as_uri(),
                "sink": "kafka",
                "sources": [f"kafka:subscribe={self.topic}"],
                "kafka": [source.to_json()],
            }
            for query in QUERIES
        ]
        holder = ""
        for number in range(1, self.upgrades + 1):
            deployment, request = f"{self.name}-1-{number}-{number:08x}", f"{number:016x}"
            name = f"{deployment}.0000000a"
            release = {
                "version": f"1.{number}",
                "hash": hashlib.sha256(deployment.encode()).hexdigest(),
                "application": f"{self.name}.py",
                "arguments": ["--checkpoint", str(self.checkpoint(""))],
                "conf": {f"spark.executor.setting{n}": str(n) for n in range(10)},
            }
            family, goal = f"wish-{number}", "stand_by" if holder else "hold"
            why: dict[str, Any] = {"policy": {}, "reason": "the next version"}
            yield _record(Kind.WANTED, wish=family, goal=goal, release=release, **why)
            yield _record(Kind.DECLARED, deployment=deployment, family=family, release=release, **why)
            yield _record(Kind.SUBMITTED, deployment=deployment, submission=f"driver-{number}", cluster="spark")
            yield _record(Kind.STANDBY, deployment=deployment, incarnation=name, queries=queries, rehearsal={})
            wish = f"{family}-hold" if holder else family
            if holder:
                yield _record(Kind.WANTED, wish=wish, goal="hold", family=family, reason="the next version")
            yield _record(Kind.REQUESTED, request=request, to=name, expires=2e9, reason="wanted", wish=wish)
            yield _record(Kind.READY, request=request, incarnation=name)
            if holder:
                ends = {"request": request, "to": name, "boundary": "completed", "ends": {}}
                yield _record(Kind.RELEASED, incarnation=holder, **ends)
            yield _record(Kind.ACQUIRED, incarnation=name, request=request, epoch=number)
            if holder:
                yield _record(Kind.RETIRED, deployment=holder.partition(".")[0], reason="not needed")
            holder = name


def make_streams(folder: Path, servers: str, count: int) -> list[StoredStream]:
    """Write so many streams, `s0000` and so on, under one control root; the topics are not made."""
    make_root((folder / "control").as_uri())
    streams = [StoredStream(folder, f"s{number:04d}", servers) for number in range(count)]
    for stream in streams:
        stream.make()
    return streams


def move(streams: Sequence[StoredStream], moving: int) -> None:
    """Beat and commit for ever."""
    stores = [stream.log for stream in streams]
    seqs = [log.refresh().seq for log in stores]
    producer = _producer(streams[0].servers)
    for second in range(sys.maxsize):
        began = time.monotonic()
        for number, stream in enumerate(streams):
            if number < moving and (second + number) % BATCH_SECONDS == 0:
                stream.commit()
                for partition in range(PARTITIONS):
                    producer.send(stream.topic, b"an order", partition=partition)
            beat = stream.heartbeat(seqs[number], second + 2)
            stores[number].store.put_heartbeat(stream.holder, beat.to_json())
        lasted = time.monotonic() - began
        time.sleep(max(0.0, 1.0 - lasted))


def _producer(servers: str) -> Any:
    from kafka import KafkaProducer

    return KafkaProducer(bootstrap_servers=servers, linger_ms=100)


def _record(kind: str, **fields: object) -> Record:
    return Record(kind, fields, by="airflow:s__upgrade/manual__2026-11-22T00:00:00+00:00/hand_over", at=1e9)


def main(folder: str, servers: str, count: str, moving: str) -> None:
    """Move streams that `make_streams` has written."""
    streams = [StoredStream(Path(folder), f"s{n:04d}", servers, BATCHES) for n in range(int(count))]
    move(streams, int(moving))


if __name__ == "__main__":
    main(*sys.argv[1:])
