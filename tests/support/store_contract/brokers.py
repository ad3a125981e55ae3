"""A topic of a real Kafka, for the contract of stores: through Airflow's client, and through a driver's JVM."""

from __future__ import annotations

import contextlib
import itertools
import json
import resource
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from airflow_stream_provider.control.topic import Message, Topic, read_all, topic_name
from airflow_stream_provider.control.topic_index import number_of
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.kafka.control_root import KafkaTopic
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import alter_topic
from devstack.ports import HOST
from tests.support.jvm_topics import Jvm
from tests.support.kafka_link import KafkaLink
from tests.support.race import said, started
from tests.support.store_contract.topics import copies, gap

_numbers = itertools.count(1)
ONE_LEADER = "needs three brokers: one that leads no more answers; see test_topic_faults.py"
OURS = "needs a broker of our own"


class BrokerWay:
    """How one process reaches a topic; implements `Way` where it has a link."""

    def __init__(self, topic: Topic, link: KafkaLink | None) -> None:
        self.store = TopicStore(topic, "orders")
        self._link = link

    @property
    def link(self) -> KafkaLink:
        assert self._link is not None
        return self._link

    def answer_lost(self, then_away: bool) -> AbstractContextManager[None]:
        return self.link.answer_lost(then_away)

    def held(self) -> AbstractContextManager[Callable[[], None]]:
        return self.link.held()

    def hanging(self) -> AbstractContextManager[None]:
        return self.link.hanging()

    def slow(self) -> AbstractContextManager[None]:
        return self.link.slow()

    def stale(self) -> AbstractContextManager[None]:
        raise NotImplementedError(ONE_LEADER)


class TheirPlace:
    """A topic of a Kafka that somebody else runs, and which nothing is done to; implements `Place`.

    :param client: of that Kafka.
    :param extra: of its connection.
    :param prefix: of the topic's name.
    :param jvms: start the JVM through which it is used, or another one. Default: Airflow's client is.
    """

    cannot: Mapping[str, str] = {
        "stale": ONE_LEADER,
        **dict.fromkeys(("answer_lost", "held", "hanging", "slow", "away", "full", "lose_end"), OURS),
    }

    def __init__(
        self, client: KafkaClient, extra: Mapping[str, Any], prefix: str, jvms: Callable[[int], Jvm] | None = None
    ) -> None:
        self._client = client
        self._extra = extra
        self._jvms = jvms
        self.topic = topic_name(prefix, f"orders-{next(_numbers)}")
        self._partition = TopicPartition(self.topic, 0)
        self._opened = contextlib.ExitStack()
        topic_setup.create(client, self.topic)

    def open(self) -> BrokerWay:
        return BrokerWay(self._reach(self._extra), None)

    def close(self) -> None:
        self._opened.close()
        with contextlib.suppress(KafkaError):
            self._client._admin.delete_topics([self.topic])

    def _reach(self, extra: Mapping[str, Any]) -> Topic:
        if self._jvms is not None:
            found = self._jvms(0).open(str(extra["bootstrap.servers"]), self.topic)
            self._opened.callback(found.close)
            return found
        client = self._opened.enter_context(KafkaClient("kafka_test", extra))
        return KafkaTopic(lambda: client, client.conn_id, self.topic)

    def _raw(self) -> KafkaTopic:
        return KafkaTopic(lambda: self._client, "kafka_test", self.topic)

    def copies(self, seq: int) -> int:
        return copies(self.copy(), seq)

    def race(self, writers: int, wins: int) -> list[dict[str, Any]]:
        """With two JVMs among the writers, where it is used through one."""
        total, servers = writers * wins, str(self._extra["bootstrap.servers"])
        jvms = [] if self._jvms is None else [self._jvms(number) for number in range(2)]
        topics = [jvm.open(servers, self.topic) for jvm in jvms]
        for topic in topics:
            self._opened.callback(topic.close)
        others = started(writers - len(jvms), wins, total, json.dumps(dict(self._extra)), self.topic)
        asked = [
            jvm.ask("contend", topic.number, f"jvm-{number}", wins, total)
            for number, (jvm, topic) in enumerate(zip(jvms, topics, strict=True))
        ]
        return [*said(others), *(each.result() for each in asked)]

    def gap(self, seq: int, data: bytes) -> None:
        gap(self._raw().write, TopicStore(self._raw(), "orders").origin(), seq, data)

    def lose_beginning(self) -> None:
        """Kafka deletes no records of a topic that is only compacted."""
        self._alter({**SETTINGS, "cleanup.policy": "compact,delete"})

        def deleted() -> bool:
            with contextlib.suppress(KafkaError):
                self._client._admin.delete_records({self._partition: 1})
            return bool(self._client.offsets({self._partition: -2})[self._partition].offset)

        KafkaCluster.wait(deleted)
        self._alter(SETTINGS)

    def copy(self) -> list[Message]:
        found: list[Message] = []
        read_all(self._raw(), 0, found.extend)
        return found

    def put_back(self, copied: list[Message]) -> None:
        self.make_anew()
        topic = self._raw()
        for each in copied:
            topic.write(each.key or b"", each.value, each.headers)

    def make_anew(self) -> None:
        self._client._admin.delete_topics([self.topic])

        def made() -> bool:
            with contextlib.suppress(StreamError):
                if not topic_setup.exists(self._client, self.topic):
                    topic_setup.create(self._client, self.topic)
                    return True
            return False

        KafkaCluster.wait(made)

    def _alter(self, settings: Mapping[str, str]) -> None:
        alter_topic(self._client, self.topic, settings)

    def lose_end(self) -> None:
        raise NotImplementedError(OURS)

    def away(self) -> AbstractContextManager[None]:
        raise NotImplementedError(OURS)

    def full(self) -> AbstractContextManager[None]:
        raise NotImplementedError(OURS)


class OwnPlace(TheirPlace):
    """A topic of a broker that this test has started; implements `Place`. Each process has a link of its own to it."""

    cannot: Mapping[str, str] = {"stale": ONE_LEADER}

    def __init__(self, kafka: KafkaCluster, client: KafkaClient, jvms: Callable[[int], Jvm] | None = None) -> None:
        super().__init__(client, kafka.extra, "streams", jvms)
        self._kafka = kafka

    def open(self) -> BrokerWay:
        link = KafkaLink(int(self._kafka.servers.rpartition(":")[2]))
        self._opened.callback(link.close)
        return BrokerWay(self._reach({"bootstrap.servers": f"{HOST}:{link.port}"}), link)

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is stopped."""
        self._kafka.stop(1)
        try:
            yield
        finally:
            self._start()

    @contextmanager
    def full(self) -> Iterator[None]:
        """The kernel lets no file of the broker grow, which ends it, as a full disk does."""
        hard = resource.prlimit(self._kafka.pid(1), resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self._kafka.pid(1), resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
            self._kafka.wait(lambda: self._kafka.ended(1))
        finally:
            self._kafka.kill(1)
            self._start()

    def lose_end(self) -> None:
        """Its disk loses the last record, and what is behind it."""
        end = max(each.offset for each in self.copy() if number_of(each.key))
        self._kafka.kill(1)
        (segment,) = (self._kafka.data(1) / f"{self.topic}-0").glob("*.log")
        stored, at = segment.read_bytes(), 0
        while struct.unpack_from(">q", stored, at)[0] < end:
            at += 12 + struct.unpack_from(">i", stored, at + 8)[0]
        segment.write_bytes(stored[:at])
        self._start()
        assert self.copy()[-1].offset == end - 1

    def _start(self) -> None:
        self._kafka.start(1)

        def led() -> bool:
            with contextlib.suppress(BrokerUnreachable):
                return bool(self._client.topics([self.topic])[self.topic]["partitions"][0]["leader_id"] > 0)
            return False

        self._kafka.wait(led)
