"""A driver without Spark: the runtime's own agent, threads, lease and JVM on a control log in a topic of Kafka.

    python -m tests.support.agent_on_topic SERVERS PREFIX INCARNATION < orders

It stands by at once, and does what the log asks for; its queries are made up. Each line of its input is an order,
answered by a line: `trap before KIND` and `trap after KIND` hold its next record of that kind in front of the write, or
behind the acknowledgement, `trapped` waits until one is held, `go` lets it go on, and `tell` says as JSON what it has
read, written and run.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pyspark import SparkContext

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.runtime.agent import Agent, AgentThread
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.driver_process import DriverProcess
from airflow_stream_provider.runtime.jvm_topic import JvmTopic
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import AnsweringStore, client_settings, open_owners, within_reach
from airflow_stream_provider.runtime.surroundings import Ports
from tests.support.fake_driver import FakeQueries

STREAM = "orders"
TRAPPED_SECONDS = 60.0


class TimedQueries(FakeQueries):
    """Notes when it ran, by the machine's monotonic clock, which all processes share."""

    def __init__(self) -> None:
        super().__init__([])
        self.runs: list[list[float]] = []

    @property
    def did(self) -> list[str]:
        return self._did

    def hold(self) -> Sequence[Any]:
        self.runs.append([time.monotonic()])
        return super().hold()

    def stop(self, seconds: float) -> Any:
        ended = super().stop(seconds)
        self.runs[-1].append(time.monotonic())
        return ended


class TrappedStore(TopicStore):
    """Notes which records Kafka has acknowledged, and holds one where it is told to."""

    def __init__(self, topic: JvmTopic) -> None:
        super().__init__(topic, STREAM)
        self.acknowledged: list[list[Any]] = []
        self.trap: tuple[str, ...] = ()
        self.trapped, self.go = threading.Event(), threading.Event()

    def create(self, seq: int, data: bytes) -> None:
        record = Record.read(data, seq)
        self._hold("before", record.kind)
        super().create(seq, data)
        self.acknowledged.append([seq, record.nonce])
        self._hold("after", record.kind)

    def set(self, *trap: str) -> None:
        self.trapped.clear()
        self.go.clear()
        self.trap = trap

    def _hold(self, *moment: str) -> None:
        if self.trap == moment:
            self.trap = ()
            self.trapped.set()
            self.go.wait(TRAPPED_SECONDS)


def _rehearse(former: Sequence[Any], **rest: Any) -> Mapping[str, Any]:
    return {"seconds": 0.0}


def main(servers: str, prefix: str, incarnation: str) -> None:
    """Run the driver, and carry out the orders."""
    SparkContext._ensure_initialized()
    url, policy = f"kafka://kafka_test/{prefix}", Policy()
    settings = client_settings(servers)
    store = TrappedStore(within_reach(lambda: JvmTopic(topic_name(prefix, STREAM), settings)))
    log = ControlLog(AnsweringStore(store, policy.lease_seconds / 6), STREAM)
    within_reach(log.refresh)
    queries, threads = TimedQueries(), AgentThread()
    process = DriverProcess(Ownership(STREAM, url, open_owners(url, servers)), "orders", policy.lease_seconds)
    agent = Agent(
        ControlClient(log, incarnation),
        policy,
        Ports(
            queries=cast(Any, queries),
            process=process,
            rehearse=_rehearse,
            compare=lambda former: None,
            spawn=threads.spawn,
        ),
    )
    threads.start(agent)
    print("open", flush=True)
    for order in sys.stdin:
        name, *rest = order.split()
        if name == "trap":
            store.set(*rest)
            print("set", flush=True)
        elif name == "trapped":
            print("trapped" if store.trapped.wait(TRAPPED_SECONDS) else "not yet", flush=True)
        elif name == "go":
            store.go.set()
            print("gone", flush=True)
        else:
            print(json.dumps(_told(log, store, queries)), flush=True)


def _told(log: ControlLog, store: TrappedStore, queries: TimedQueries) -> dict[str, Any]:
    known = {"acknowledged": store.acknowledged, "runs": queries.runs, "did": queries.did}
    try:
        return {**known, "records": [[each.seq, each.nonce] for each in log.another().records()]}
    except StreamError as error:
        return {**known, "records": [], "error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(*sys.argv[1:])
