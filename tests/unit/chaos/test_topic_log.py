"""What is recorded of a control log in a topic. The topic is in memory; the product's own store writes to it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.control.topic_index import COUNT, READ_TO, ReadTo, heartbeat_key, record_key
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos import patience
from chaos import topic_log as module
from chaos.sightings import Span
from chaos.topic_log import TopicLog
from devstack.drivers import wait_for
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.story import NEW, OLD, RUNNING, write
from tests.support.topic_in_memory import brokers, log

__all__ = ["brokers", "log"]


class FailingTopic(SimulatedTopic):
    """Its broker is away, or hangs, when a test says so."""

    def __init__(self, log: SimulatedLog) -> None:
        super().__init__(log)
        self.away = False
        self.reads = 0
        self.answers = threading.Event()
        self.answers.set()

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        self.reads += 1
        self.answers.wait()
        if self.away:
            raise ControlUnavailable("The broker does not answer.")
        return super().read(offset, size)


@pytest.fixture
def topic(brokers: SimulatedLog) -> FailingTopic:
    return FailingTopic(brokers)


@pytest.fixture
def seen(topic: FailingTopic) -> TopicLog:
    return TopicLog(topic, "orders")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ANSWER_SECONDS", 0.0)


def test_records_have_the_time_of_the_broker_and_not_of_their_writer(
    brokers: SimulatedLog, log: ControlLog, seen: TopicLog
) -> None:
    write(log, *RUNNING[:2])
    log.beat(OLD, Heartbeat(counter=1))
    write(log, *RUNNING[2:])
    seen.catch_up()
    assert [record.kind for record, _ in seen.records] == [each.kind for each in RUNNING]
    offsets = [message.offset for message in brokers.messages if (message.key or b"").startswith(b"record/")]
    assert [at for _, at in seen.records] == list(map(float, offsets))
    assert seen.records[0][0].at == 100.0


def test_every_heartbeat_is_seen_also_those_that_were_replaced_between_two_looks(
    log: ControlLog, seen: TopicLog
) -> None:
    for counter, phase in enumerate(("standby", "running", "running", "standby", "running"), 1):
        log.beat(OLD, Heartbeat(counter=counter, phase=phase))
    log.beat(NEW, Heartbeat(counter=1, phase="standby"))
    seen.catch_up()
    assert seen.sightings[OLD].spans == [Span(1.0, 2.0), Span(4.0, 4.0)]
    assert seen.sightings[OLD].last.counter == 5
    assert seen.sightings[NEW].spans == []
    assert seen.heartbeats() == [OLD, NEW]


def headers(seen: TopicLog, **more: bytes) -> Mapping[str, bytes]:
    read_to = seen._index.read_to
    return {READ_TO: ReadTo(read_to.seq, read_to.nonce, read_to.first).to_header(), **more}


def test_a_heartbeat_that_arrives_behind_a_later_one_says_nothing(
    brokers: SimulatedLog, log: ControlLog, seen: TopicLog
) -> None:
    log.beat(OLD, Heartbeat(counter=1, phase="running"))
    log.beat(OLD, Heartbeat(counter=2, phase="standby"))
    late = Heartbeat(counter=1, phase="running").to_json()
    brokers.append(heartbeat_key(OLD).encode(), late, headers(seen, **{COUNT: b"1"}))
    seen.catch_up()
    assert (seen.sightings[OLD].last.counter, seen.sightings[OLD].spans) == (2, [Span(0.0, 0.0)])


def test_what_nobody_can_read_is_passed_over_and_what_was_removed_is_gone(
    brokers: SimulatedLog, log: ControlLog, seen: TopicLog
) -> None:
    brokers.append(heartbeat_key(OLD).encode(), b'{"counter": 1, "ph', headers(seen, **{COUNT: b"1"}))
    log.beat(NEW, Heartbeat(counter=3, phase="running"))
    seen.catch_up()
    assert set(seen.sightings) == {NEW}
    brokers.append(heartbeat_key(NEW).encode(), None, headers(seen))
    seen.catch_up()
    assert (seen.heartbeats(), seen.heartbeat(NEW)) == ([OLD], None)
    assert seen.sightings[NEW].last.counter == 3


def test_of_two_records_with_one_number_the_first_counts(
    brokers: SimulatedLog, log: ControlLog, seen: TopicLog
) -> None:
    write(log, *RUNNING)
    seen.catch_up()
    brokers.append(record_key(2).encode(), RUNNING[2].numbered(2).to_json(), headers(seen))
    seen.catch_up()
    assert len(seen.records) == len(RUNNING)
    assert seen.gaps() == []


def test_it_reads_on_by_itself_and_keeps_what_it_knows_while_the_broker_is_away_or_hangs(
    log: ControlLog, seen: TopicLog, topic: FailingTopic
) -> None:
    write(log, *RUNNING[:2])
    log.beat(OLD, Heartbeat(counter=1))
    with seen:
        wait_for("the records", lambda: len(seen.records) == 2, 60)
        topic.away = True
        write(log, *RUNNING[2:3])
        reads = topic.reads
        wait_for("more tries", lambda: topic.reads > reads + 2, 60)
        assert (len(seen.records), seen.heartbeats()) == (2, [OLD])
        topic.away = False
        wait_for("the next record", lambda: len(seen.records) == 3, 60)
        topic.answers.clear()
        reads = topic.reads
        wait_for("a read that hangs", lambda: topic.reads > reads, 60)
        write(log, *RUNNING[3:])
        assert seen.record(3) is not None
        assert (seen.record(4), seen.heartbeats()) == (None, [OLD])
        topic.answers.set()
        wait_for("the others", lambda: len(seen.records) == len(RUNNING), 60)
    assert seen.gaps() == []


def test_an_error_that_is_none_of_the_broker_is_told_at_the_end_and_ends_nothing(
    log: ControlLog, seen: TopicLog, topic: FailingTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRANGE_SECONDS", 0.0)
    write(log, *RUNNING)

    def broken(*_: object) -> Fetched:
        topic.reads += 1
        raise ZeroDivisionError("by zero")

    with monkeypatch.context() as harm, seen:
        harm.setattr(topic, "read", broken)
        wait_for("some tries", lambda: topic.reads > 2, 60)
        harm.undo()
        wait_for("the records", lambda: len(seen.records) == len(RUNNING), 60)
    assert seen.gaps() == ["Reading the control log raised ZeroDivisionError('by zero'). Mend it."]


def test_a_log_that_was_read_whole_has_no_gaps_also_when_it_was_compacted(
    brokers: SimulatedLog, log: ControlLog, seen: TopicLog
) -> None:
    write(log, *RUNNING[:3])
    for counter in range(1, 5):
        log.beat(OLD, Heartbeat(counter=counter, phase="running"))
    seen.catch_up()
    write(log, *RUNNING[3:])  # the stream still runs
    brokers.compact(brokers.end, tombstones=True)
    assert seen.gaps() == []
    assert len(seen.records) == len(RUNNING)
    assert seen.sightings[OLD].spans == [Span(3.0, 6.0)]


def replace(brokers: SimulatedLog, number: int, message: Message | None) -> None:
    places = [n for n, each in enumerate(brokers.messages) if (each.key or b"").startswith(b"record/%d/" % number)]
    brokers.messages[places[0] : places[0] + 1] = [] if message is None else [message]


def test_records_that_were_removed_or_changed(brokers: SimulatedLog, log: ControlLog, seen: TopicLog) -> None:
    write(log, *RUNNING)
    seen.catch_up()
    last = brokers.messages[-1]
    replace(brokers, len(RUNNING), Message(last.offset, last.key, (last.value or b"") + b" ", last.headers, last.at))
    assert seen.gaps() == [f"The records {len(RUNNING)} of the control log were changed. Find out who wrote them."]
    replace(brokers, len(RUNNING), None)
    assert seen.gaps() == [
        f"The control log has no record {len(RUNNING)}, and goes to {len(RUNNING)}. Find out who removed it."
    ]
    replace(brokers, 2, None)
    [says] = seen.gaps()
    assert says.startswith("The control log cannot be read as a whole: Record 2 of")


def test_a_topic_that_lost_a_record_before_it_was_read_or_was_made_anew(
    brokers: SimulatedLog, log: ControlLog, seen: TopicLog
) -> None:
    write(log, *RUNNING)
    replace(brokers, 2, None)
    with pytest.raises(ControlLogDamaged):
        seen.catch_up()
    assert len(seen.records) == 1
    brokers.begin()
    [says] = seen.gaps()
    assert says.startswith("The control log cannot be read as a whole: It was made anew.")


def test_the_records_are_kept_in_a_file(log: ControlLog, seen: TopicLog, tmp_path: Path) -> None:
    write(log, *RUNNING)
    seen.catch_up()
    seen.write(tmp_path / "control" / "orders.jsonl")
    lines = (tmp_path / "control" / "orders.jsonl").read_bytes().splitlines()
    assert lines == [(log.store.read(number) or b"").strip() for number in range(1, len(RUNNING) + 1)]
