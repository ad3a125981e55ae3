"""Lag against a real broker: where the numbers of other tools are wrong."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from airflow_stream_provider.checkpoint import Owner, claim
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.report import Alarm, Ceilings, GroupVerdict, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from devstack import checkpoint_trees as trees
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import alter_topic, commit_group, create_topics
from tests.support.lag_reports import measure, of_group

HOUR = 3600.0


class Checkpoint:
    """What Spark writes of a query that reads Kafka; each commit may be back-dated."""

    def __init__(self, folder: Path) -> None:
        self.path = trees.new(folder)
        for name in ("offsets", "commits"):
            (folder / name).mkdir()
        self.next = 0

    def commit(self, offsets: Mapping[str, Mapping[int, int]], at: float | None = None) -> None:
        self.plan(offsets)
        trees.commit(self.path, self.next, at=at)
        self.next += 1

    def plan(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        trees.plan(self.path, self.next, trees.kafka(**offsets))

    def purge(self, batch: int) -> None:
        for name in ("offsets", "commits"):
            (self.path / name / str(batch)).unlink(missing_ok=True)

    def committed(self, **more: Any) -> CommittedOffsets:
        return CommittedOffsets("q", checkpoint=str(self.path), **more)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


@contextlib.contextmanager
def producing(kafka: KafkaCluster, **settings: Any) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=kafka.servers, **settings)
    yield producer
    producer.close()


def produce(kafka: KafkaCluster, topic: str, ages: Sequence[float], partition: int = 0) -> float:
    """Send a record of each age in seconds, oldest first, and return the time they count from."""
    now = time.time()
    with producing(kafka) as producer:
        for age in ages:
            producer.send(topic, b"x", partition=partition, timestamp_ms=round((now - age) * 1000))
    return now


class Look:
    """The times between which something is measured: a busy machine may take long for it."""

    def __enter__(self) -> Look:
        self._began = time.time()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = time.time()

    def seconds(self, since: float, off: float = 1.0) -> Any:
        """What is equal to the seconds from a time to that of the measurement."""
        first, last = self._began - since, self._ended - since
        return pytest.approx((first + last) / 2, abs=(last - first) / 2 + off)


def lag(client: KafkaClient, checkpoint: Checkpoint, quiet_seconds: float | None = None, **more: Any) -> QueryLag:
    beat = Heartbeat(queries=(QueryProgress("q", quiet_seconds=quiet_seconds),))
    (found,) = measure(client, [checkpoint.committed(heartbeat=beat, **more)]).queries
    return found


@pytest.mark.quick
def test_three_hours_behind_the_seconds_are_right_within_one(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    """Batches of at most 500 offsets; records come in bursts and pauses, so that no line through them is right."""
    topic = new_topic(3)
    ages = [age for minute in range(200, 0, -1) for age in (minute * 60 + n * 0.05 for n in range(30, 0, -1))]
    began = [produce(kafka, topic, ages, partition) for partition in range(3)]
    done = sum(age > 3 * HOUR for age in ages)
    for batch in range(8):
        checkpoint.commit({topic: dict.fromkeys(range(3), min(done, 100 * batch))}, time.time() - 60 * (8 - batch))
    with Look() as look:
        found = lag(client, checkpoint)
    assert found.records == 3 * (len(ages) - min(done, 700))
    assert found.seconds == look.seconds(began[0] - ages[min(done, 700)])
    assert found.seconds is not None
    assert found.seconds > 3 * HOUR - 60
    assert [partition.commit_age for partition in found.partitions] == pytest.approx([60] * 3, abs=30)
    assert found.retention_seconds == pytest.approx(7 * 24 * HOUR - found.seconds, abs=1.0)


def test_a_stream_that_has_read_everything_is_not_behind(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic()
    produce(kafka, topic, [9, 8, 7])
    checkpoint.commit({topic: {0: 3}}, time.time() - 9 * HOUR)
    found = lag(client, checkpoint)
    assert (found.records, found.seconds, found.verdict) == (0, 0.0, GroupVerdict.OK)
    assert found.alarms(Ceilings(commit_age=60)) == ()


def test_open_and_aborted_transactions(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic()
    began = produce(kafka, topic, [1500, 1400, 1300])
    checkpoint.commit({topic: {0: 3}})
    with producing(kafka, transactional_id="open", transaction_timeout_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for age in (1200, 10, 5):
            producer.send(topic, b"x", partition=0, timestamp_ms=round((began - age) * 1000))
        producer.flush()
        committed, uncommitted = lag(client, checkpoint, read_committed=True), lag(client, checkpoint)
        assert (committed.records, committed.seconds, committed.partitions[0].held) == (0, 0.0, 3)
        assert committed.held_seconds is not None
        assert 0 < committed.held_seconds < 120, "its own age, not that of its records"
        assert (committed.held_by, committed.held_timeout, committed.alarms(Ceilings())) == ("open", 60.0, ())
        assert committed.alarms(Ceilings(transaction=0)) == (Alarm.STUCK_TRANSACTION,)
        before, after = began - 1250, began - 1150
        asked = Moments(at=frozenset({before, after}))
        (gate,) = measure(client, [checkpoint.committed(read_committed=True)], asked).queries
        assert gate.unread_before == {before: False, after: True}, "records behind an open transaction are not read"
        assert (uncommitted.records, uncommitted.partitions[0].held) == (3, None)
        assert uncommitted.alarms(Ceilings()) == ()
        (opened,) = (each for of_broker in client.transactions().values() for each in of_broker)
        assert opened.partitions == {TopicPartition(topic, 0)}
        producer.abort_transaction()
    kafka.wait(lambda: lag(client, checkpoint, read_committed=True).held_seconds == 0)
    found = lag(client, checkpoint, read_committed=True)
    assert (found.records, found.partitions[0].held, found.held_seconds) == (4, 0, 0.0), "Spark reads over the marker"
    checkpoint.commit({topic: {0: 7}})
    assert lag(client, checkpoint, read_committed=True).records == 0


def test_a_compacted_topic_is_never_further_behind_than_its_offsets(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=200, segment_bytes=1048576)
    with producing(kafka) as producer:
        for number in range(200):
            producer.send(topic, b"x", key=b"key %d" % (number % 3), partition=0)
        producer.flush()
        began = time.time()

        def cleaned() -> bool:
            time.sleep(0.3)
            # A segment is closed, and so can be cleaned, when the next record comes after its time.
            producer.send(topic, b"x", key=b"last", partition=0).get(60)
            with KafkaConsumer(
                bootstrap_servers=kafka.servers, auto_offset_reset="earliest", consumer_timeout_ms=2000
            ) as reader:
                reader.assign([TopicPartition(topic, 0)])
                # None at all: the broker had no time to answer.
                return 0 < sum(1 for record in reader if record.offset < 200) <= 3

        kafka.wait(cleaned)
    checkpoint.commit({topic: {0: 0}})
    found = lag(client, checkpoint)
    (partition,) = found.partitions
    assert (partition.state, partition.log_start, found.lost) == (PartitionState.OK, 0, 0)
    assert found.records == partition.end
    assert found.seconds is not None
    assert 0 < found.seconds <= time.time() - began + 60
    checkpoint.commit({topic: {0: partition.end or 0}})
    assert lag(client, checkpoint).records == 0
    assert found.retention_seconds is None, "nothing is deleted by age"


def test_retention_that_overtakes_the_stream(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic(retention_ms=round(HOUR * 1000), segment_bytes=1048576)
    began = produce(kafka, topic, [3000.0] * 10)
    checkpoint.commit({topic: {0: 4}}, time.time() - 600)
    with Look() as look:
        before = lag(client, checkpoint)
    assert before.retention_seconds is not None
    assert HOUR - before.retention_seconds == look.seconds(began - 3000)
    assert before.alarms(Ceilings(retention=900)) == (Alarm.RETENTION,)
    alter_topic(client, topic, {"retention.ms": "1000"})
    kafka.wait(lambda: lag(client, checkpoint).lost == 6)
    alter_topic(client, topic, {"retention.ms": str(round(HOUR * 1000))})
    produce(kafka, topic, [0.0])
    after = lag(client, checkpoint)
    (partition,) = after.partitions
    assert (partition.committed, partition.log_start, partition.end, partition.raw_lag) == (4, 10, 11, 7)
    assert (after.records, after.lost) == (1, 6), "what is gone is lost, and no lag"
    assert Alarm.LOST_DATA in after.alarms(Ceilings())


def test_new_partitions_count_from_their_start(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic()
    produce(kafka, topic, [9, 8])
    checkpoint.commit({topic: {0: 2}})
    commit_group(client, "grown", {TopicPartition(topic, 0): 2})
    client._admin.create_partitions({topic: 3})
    kafka.wait(lambda: len(client.topics([topic])[topic]["partitions"]) == 3)
    kafka.wait(lambda: len(client.offsets({TopicPartition(topic, 2): -1})) == 1)
    began = produce(kafka, topic, [60, 5], partition=2)
    with Look() as look:
        found = lag(client, checkpoint)
    assert [(p.state.value, p.lag) for p in found.partitions] == [("ok", 0), ("new_partition", 0), ("new_partition", 2)]
    assert (found.records, found.complete) == (2, True)
    assert found.seconds == look.seconds(began - 60)
    (group,) = measure(client, [of_group(client, "grown")]).queries
    assert [p.state.value for p in group.partitions] == ["ok", "new_partition", "no_commit"]
    assert (group.complete, group.problem) == (False, f"There is no commit for partition 2 of the topic {topic}.")


def test_a_topic_that_is_deleted_and_made_anew(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic, other = new_topic(), new_topic()
    produce(kafka, topic, [9, 8, 7])
    produce(kafka, other, [9])
    checkpoint.commit({topic: {0: 3}, other: {0: 0}})
    client._admin.delete_topics([topic])
    kafka.wait(lambda: topic in client.topics([topic]).problems)
    gone = lag(client, checkpoint)
    assert {p.topic: p.state for p in gone.partitions} == {
        topic: PartitionState.UNKNOWN_TOPIC,
        other: PartitionState.OK,
    }
    assert (gone.records, gone.complete, gone.problem) == (1, False, f"There is no topic {topic}.")
    kafka.wait(lambda: not create_topics(client, {topic: 1}) and topic in client.topics([topic]))
    produce(kafka, topic, [1])
    recreated = lag(client, checkpoint)
    first = next(p for p in recreated.partitions if p.topic == topic)
    assert (first.state, first.raw_lag, first.lag, first.verdict) == (
        PartitionState.AHEAD_OF_END,
        -2,
        None,
        Verdict.REWIND,
    )
    assert (recreated.verdict, recreated.complete) == (GroupVerdict.ERR, False)
    assert "the topic was recreated or truncated" in recreated.problem


def test_lag_is_never_negative_while_the_stream_reads_and_commits(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    checkpoint.commit({topic: {0: 0}})
    over = threading.Event()

    def stream() -> None:
        """Produces and commits as fast as it can, planning ahead like Spark."""
        with producing(kafka) as producer:
            for _ in range(5000):
                if over.is_set():
                    return
                end = producer.send(topic, b"x", partition=0).get(60).offset + 1
                checkpoint.commit({topic: {0: end}})
                commit_group(client, "quick", {partition: end})
                checkpoint.purge(checkpoint.next - 5)

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        kafka.wait(lambda: client.groups_offsets(["quick"]).get("quick"))
        for _ in range(60):
            report = measure(client, [checkpoint.committed(), of_group(client, "quick")])
            for query in report.queries:
                (found,) = query.partitions
                assert found.state is PartitionState.OK, query.problem
                assert found.raw_lag is not None
                assert found.raw_lag >= 0
    finally:
        over.set()
        thread.join()


def test_a_batch_that_is_planned_is_not_read(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic()
    produce(kafka, topic, [9, 8, 7])
    checkpoint.commit({topic: {0: 1}})
    checkpoint.plan({topic: {0: 3}})
    assert lag(client, checkpoint).records == 2


def test_several_queries_and_places_in_one_report(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    topic = new_topic()
    began = produce(kafka, topic, [300, 200, 100])
    checkpoint.commit({topic: {0: 2}})
    commit_group(client, "slow", {TopicPartition(topic, 0): 1})
    beat = Heartbeat(queries=(QueryProgress("fresh", committed=({topic: {"0": 3}},), batch=7),))
    moments = Moments(at=frozenset({began - 1000, began - 150}))
    sources: list[Committed | CommittedOffsets] = [
        checkpoint.committed(),
        of_group(client, "slow"),
        CommittedOffsets("fresh", beat),
        CommittedOffsets("new", beat),
    ]
    with Look() as look:
        report = measure(client, sources, moments)
    assert {query.query: query.records for query in report.queries} == {"q": 1, "slow": 2, "fresh": 0, "new": None}
    assert report.queries[2].batch == 7
    assert (report.records, report.complete) == (2, False)
    assert report.seconds == look.seconds(began - 200)
    assert [report.unread_before(at) for at in sorted(moments.at)] == [None, True], "one query is unknown"


@pytest.mark.parametrize("bad", ["none", "fresh", "damaged", "another's"])
def test_what_cannot_be_known_is_one_sentence_and_never_zero(
    client: KafkaClient, checkpoint: Checkpoint, bad: str
) -> None:
    location = str(checkpoint.path)
    ours = Owner("orders", "file:///control")
    if bad == "none":
        location += "-elsewhere"
    if bad == "damaged":
        checkpoint.commit({"t": {0: 1}})
        (checkpoint.path / "offsets" / "0").write_text("v1\n{\ngarbage")
    if bad == "another's":
        checkpoint.commit({"t": {0: 1}})
        claim(location, "others", "file:///control")
    moments = Moments(at=frozenset({1.0}))
    report = measure(client, [CommittedOffsets("q", checkpoint=location, owner=ours)], moments)
    (found,) = report.queries
    assert (found.records, found.seconds, found.complete, found.verdict) == (None, None, False, GroupVerdict.UNKNOWN)
    sentence = {
        "none": "There is no checkpoint at",
        "fresh": "has no batch yet.",
        "damaged": str(checkpoint.path / "offsets" / "0"),
        "another's": "belongs to the stream others of file:///control, not to orders",
    }[bad]
    assert sentence in found.problem
    assert "\n" not in found.problem
    assert report.unread_before(1.0) is None


def test_a_group_that_nobody_knows_is_not_found(client: KafkaClient) -> None:
    report = measure(client, [of_group(client, "nobody")])
    (found,) = report.queries
    assert (found.verdict, found.records, found.problem) == (
        GroupVerdict.NOTFOUND,
        None,
        "Kafka has no commit of a group nobody.",
    )


def test_the_verdict_is_rebuilt_from_the_commits(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], checkpoint: Checkpoint
) -> None:
    """A stream that kept up until ten minutes ago and then stopped, and one that goes on but falls behind."""
    topic = new_topic(2)
    now = time.time()
    ages = [float(age) for age in range(1200, 0, -1)]
    for partition in (0, 1):
        produce(kafka, topic, ages, partition)
    for minute in range(10):
        at = 600 + 30 * (10 - minute)
        checkpoint.commit({topic: {0: 1200 - at, 1: 1200 - at}}, now - at)
    assert {p.verdict for p in lag(client, checkpoint).partitions} == {None}, "nobody knows whether it waits by design"
    stopped = lag(client, checkpoint, quiet_seconds=1.0)
    assert {p.verdict for p in stopped.partitions} == {Verdict.STOP}
    assert stopped.verdict is GroupVerdict.ERR
    assert Alarm.COMMIT_AGE in stopped.alarms(Ceilings(commit_age=300))
    for batch in range(10):
        at = 30 * (10 - batch) - 20
        checkpoint.commit({topic: {0: 600 + 5 * batch, 1: 1200 - at}}, now - at)
    slow, quick = lag(client, checkpoint, quiet_seconds=1.0).partitions
    assert (slow.verdict, quick.verdict) == (Verdict.WARN, Verdict.OK)
