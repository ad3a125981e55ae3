"""What is recorded of a control log in a topic. The topic is in memory; the product's own store writes to it."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.topic import Fetched, Message
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged
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


@pytest.fixture
def topic(brokers: SimulatedLog) -> SimulatedTopic:
    return SimulatedTopic(brokers)


@pytest.fixture
def seen(topic: SimulatedTopic) -> TopicLog:
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


def test_an_error_that_is_none_of_the_broker_is_told_at_the_end_and_ends_nothing(
    log: ControlLog, seen: TopicLog, topic: SimulatedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRANGE_SECONDS", 0.0)
    write(log, *RUNNING)

    tries: list[object] = []

    def broken(*given: object) -> Fetched:
        tries.append(given)
        raise ZeroDivisionError("by zero")

    with monkeypatch.context() as harm, seen:
        harm.setattr(topic, "read", broken)
        wait_for("some tries", lambda: len(tries) > 2, 60)
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
