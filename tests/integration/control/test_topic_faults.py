"""A control log on three real brokers that are killed and frozen, in topics that are compacted, emptied and deleted."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest
from kafka import TopicPartition

from airflow_stream_provider.control import topic_reader
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    RuleBroken,
    SpecError,
    StreamError,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack.kafka_cluster import KafkaCluster
from tests.support.log_in_topic import log_in_topic
from tests.support.story import OLD, RUNNING, declared, write
from tests.support.three_brokers import alter, brokers, certificates, client, control_topic, in_sync, leader

__all__ = ["alter", "brokers", "certificates", "client", "control_topic"]

pytestmark = pytest.mark.system

Alter = Callable[[str, Mapping[str, str]], None]
WRITERS, MORE = 5, 3
FAULT_SECONDS = 150.0
# Compacts within seconds.
QUICK = {"segment.ms": "200", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}


def store(log: ControlLog) -> TopicStore:
    assert isinstance(log.store, TopicStore)
    return log.store


def told(log: ControlLog) -> list[tuple[int, str]]:
    """Return the whole history that a reader has."""
    return [(record.seq, record.nonce) for record in log.records()]


class Writer(threading.Thread):
    """Appends declarations, each until it is known that the log has it, and notes what was acknowledged."""

    def __init__(self, brokers: KafkaCluster, topic: str, number: int) -> None:
        super().__init__(daemon=True)
        self.client = brokers.client()
        self.log = log_in_topic(self.client, topic)
        self.number = number
        self.acknowledged: list[str] = []
        self.unknown = 0
        self.stopping = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._append(f"orders-{self.number}-{uuid.uuid4().hex[:12]}")
        except BaseException as error:  # noqa: BLE001
            self.failed = error

    def _append(self, deployment: str) -> None:
        while True:
            try:
                self.log.propose(lambda state: None if deployment in state.deployments else declared(deployment))
                self.acknowledged.append(deployment)
                return
            except ControlLogDamaged:
                raise
            except ControlUnavailable:
                self.unknown += 1
                time.sleep(0.2)
            except RuleBroken:
                continue  # the first try has landed meanwhile


@contextlib.contextmanager
def writing(brokers: KafkaCluster, topic: str) -> Iterator[list[Writer]]:
    writers = [Writer(brokers, topic, number) for number in range(WRITERS)]
    for each in writers:
        each.start()
    try:
        yield writers
    finally:
        for each in writers:
            each.stopping.set()
        for each in writers:
            each.join(FAULT_SECONDS)
            each.client.close()


def wait_for_more(brokers: KafkaCluster, writers: list[Writer]) -> None:
    """Wait until every writer has appended some more."""
    wanted = {each: len(each.acknowledged) + MORE for each in writers}

    def done() -> bool:
        failed = [each.failed for each in writers if each.failed]
        assert not failed, failed
        return all(len(each.acknowledged) >= count for each, count in wanted.items())

    brokers.wait(done, FAULT_SECONDS)


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_no_record_is_lost_with_the_leader(
    brokers: KafkaCluster, client: KafkaClient, control_topic: str, fault: str
) -> None:
    with writing(brokers, control_topic) as writers:
        wait_for_more(brokers, writers)
        number = leader(client, control_topic)
        if fault == "killed":
            brokers.kill(number)
        else:
            brokers.freeze(number)
        wait_for_more(brokers, writers)
        if fault == "killed":
            brokers.start(number)
        else:
            brokers.thaw(number)
        wait_for_more(brokers, writers)
    assert [each.failed for each in writers] == [None] * WRITERS
    assert sum(each.unknown for each in writers) > 0
    brokers.wait(lambda: in_sync(client, control_topic) == 3)
    history = told(log_in_topic(client, control_topic))
    with brokers.client() as other:
        assert told(log_in_topic(other, control_topic)) == history
    log = log_in_topic(client, control_topic)
    names = Counter(str(record.fields["deployment"]) for record in log.records())
    assert set(names.values()) == {1}
    assert {name for each in writers for name in each.acknowledged} <= names.keys()
    assert log.refresh().illegal_count == 0


def test_too_few_replicas_in_sync_are_an_outage_with_its_name(
    brokers: KafkaCluster, client: KafkaClient, control_topic: str, alter: Alter
) -> None:
    log = log_in_topic(client, control_topic)
    write(log, *RUNNING)
    alter(control_topic, {"min.insync.replicas": "3"})
    gone = next(number for number in brokers.numbers if number != leader(client, control_topic))
    brokers.kill(gone)
    try:
        brokers.wait(lambda: in_sync(client, control_topic) == 2)

        def refused() -> str:
            try:
                log.beat(OLD, Heartbeat(counter=1))
            except ControlUnavailable as error:
                return str(error)
            return ""

        brokers.wait(lambda: "Fewer of its replicas are in sync than its min.insync.replicas asks for" in refused())
        assert log.refresh().seq == len(RUNNING)  # it can be read
        with pytest.raises(SpecError, match=r"min.insync.replicas=3"):
            topic_setup.check(client, control_topic)
    finally:
        brokers.start(gone)
    brokers.wait(lambda: in_sync(client, control_topic) == 3)
    alter(control_topic, {"min.insync.replicas": "2"})
    brokers.wait(lambda: not refused())
    topic_setup.check(client, control_topic)


def test_a_deleted_topic_is_named_and_one_made_anew_is_another_one(
    brokers: KafkaCluster, client: KafkaClient, control_topic: str
) -> None:
    log, writer = log_in_topic(client, control_topic), log_in_topic(client, control_topic)
    write(log, *RUNNING)
    writer.refresh()
    client._admin.delete_topics([control_topic])
    brokers.wait(lambda: not topic_setup.exists(client, control_topic))
    with pytest.raises((ControlUnavailable, ControlLogReplaced), match=r"does not exist|was deleted"):
        log.refresh()
    with pytest.raises(ControlUnavailable, match="does not exist"):
        writer.beat(OLD, Heartbeat(counter=1))
    with pytest.raises(ControlUnavailable, match=r"There is no control log: .* does not exist"):
        topic_setup.check(client, control_topic)
    brokers.wait(lambda: topic_setup.create(client, control_topic) is None)
    assert log_in_topic(client, control_topic).refresh().seq == 0
    for each in (log.refresh, lambda: writer.beat(OLD, Heartbeat(counter=2))):
        with pytest.raises(ControlLogReplaced, match="was deleted, and perhaps made anew"):
            each()


def test_a_topic_that_somebody_lets_expire_is_refused_by_whoever_opens_it(
    brokers: KafkaCluster, client: KafkaClient, control_topic: str, alter: Alter
) -> None:
    alter(control_topic, QUICK)
    log = log_in_topic(client, control_topic)
    write(log, *RUNNING)
    alter(control_topic, {**QUICK, "cleanup.policy": "delete", "retention.ms": "500"})
    partition = TopicPartition(control_topic, 0)

    def expired() -> bool:
        log.beat(OLD, Heartbeat(counter=1))  # a segment ends when something is written
        return bool(client.offsets({partition: -2})[partition].offset)

    brokers.wait(expired)
    assert log.refresh().holder == OLD  # who had read it all, goes on
    with pytest.raises(ControlLogDamaged, match=r"does not have offset 0.*its beginning was deleted"):
        log_in_topic(client, control_topic).refresh()
    with pytest.raises(SpecError, match=r"has cleanup.policy=delete; a control log needs compact"):
        topic_setup.check(client, control_topic)
    alter(control_topic, SETTINGS)
    brokers.wait(
        lambda: isinstance(topic_setup.problems(client, [control_topic]).get(control_topic), ControlLogDamaged)
    )


def test_compaction_loses_no_record_while_it_runs(
    brokers: KafkaCluster, client: KafkaClient, control_topic: str, alter: Alter, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(control_topic, {**QUICK, "delete.retention.ms": "1"})
    log, reader = log_in_topic(client, control_topic), log_in_topic(client, control_topic)
    partition = TopicPartition(control_topic, 0)
    ids = {control_topic: client.topics([control_topic])[control_topic]["topic_id"]}
    drivers = [f"orders-1-aaaaaaaa.{number:08x}" for number in range(3)]
    written = 0

    def say() -> None:
        """Write what a stream writes in some seconds, and what its clean-up does."""
        nonlocal written
        for _ in range(4):
            write(log, declared(f"orders-{uuid.uuid4().hex[:12]}"))
            for driver in drivers:
                log.beat(driver, Heartbeat(counter=written))
            written += 1
        log.store.put_saved_state(b"%d" % written)
        ended = f"orders-0-cccccccc.{written:08x}"
        log.beat(ended, Heartbeat(counter=1))
        store(log).remove_heartbeat(ended)

    def left() -> int:
        """How many messages the topic still has."""
        at, count = 0, 0
        while True:
            fetched = client.read({partition: at}, ids)[partition]
            count += len(fetched.messages)
            if fetched.next_offset >= fetched.end:
                return count
            at = fetched.next_offset

    def compacted() -> bool:
        say()
        # Records may never go; of the rest most has.
        messages = left()
        assert messages >= written
        same()
        return written >= 40 and messages < written * 2

    def answers(each: ControlLog) -> object:
        beats = {name: each.store.heartbeat(name) for name in each.store.heartbeats()}
        return told(each), beats, each.store.saved_state()

    def same() -> None:
        fresh, whole = log_in_topic(client, control_topic), log_in_topic(client, control_topic)
        for each in (fresh, reader):
            store(each).catch_up()  # a new leader may not yet show all that was acknowledged
        with monkeypatch.context() as patched:
            patched.setattr(topic_reader, "TAILS", ())
            wanted = answers(whole)
        assert answers(fresh) == answers(reader) == wanted
        assert len(told(fresh)) == written
        assert sorted(fresh.store.heartbeats()) == drivers

    brokers.wait(compacted, FAULT_SECONDS)
    assert client.offsets({partition: -2})[partition].offset == 0
    # Whoever leads later has the same.
    first = leader(client, control_topic)
    brokers.kill(first)
    try:
        brokers.wait(lambda: leader(client, control_topic) not in (-1, first))

        def again() -> bool:
            with contextlib.suppress(ControlUnavailable, StreamError):
                same()
                return True
            return False

        brokers.wait(again)
    finally:
        brokers.start(first)
