"""A control log in a topic, whose brokers lag behind, and to which others write as well."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control import topic_reader
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic import READ_BYTES, Fetched
from airflow_stream_provider.control.topic_index import heartbeat_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.story import NEW, OLD, RUNNING, declared, write


@pytest.fixture
def log() -> SimulatedLog:
    return SimulatedLog()


def opened(topic: SimulatedTopic) -> ControlLog:
    return ControlLog(TopicStore(topic, "orders"), "orders")


@pytest.fixture
def writer(log: SimulatedLog) -> ControlLog:
    found = opened(SimulatedTopic(log))
    write(found, *RUNNING)
    return found


def test_the_first_record_tells_a_log_from_any_other(log: SimulatedLog, writer: ControlLog) -> None:
    first = writer.records()[0].nonce
    for _ in range(100):
        log.append(b"look", b"-", {})
    driver = TopicStore(SimulatedTopic(log), "orders")
    assert driver.origin() == first
    driver.put_heartbeat(OLD, b"{}")
    later = SimulatedTopic(log)
    assert TopicStore(later, "orders").origin() == first
    assert later.read_messages < 50, "the topic is not read whole for it"
    assert TopicStore(SimulatedTopic(SimulatedLog()), "orders").origin() == ""


def test_a_heartbeat_renews_no_lease_behind_a_record_that_was_not_read(log: SimulatedLog, writer: ControlLog) -> None:
    driver = opened(SimulatedTopic(log))
    for number in range(3):
        assert driver.refresh().seq == len(RUNNING) + number
        driver.beat(OLD, Heartbeat(counter=1))
        write(writer, declared(f"orders-{number}-bbbb"))
        for _ in range(2):
            with pytest.raises(ControlUnavailable, match="has more records than were read before this heartbeat"):
                driver.beat(OLD, Heartbeat(counter=2))


def test_a_heartbeat_renews_the_lease_behind_a_record_of_its_driver(log: SimulatedLog, writer: ControlLog) -> None:
    driver = opened(SimulatedTopic(log))
    write(driver, declared("orders-9-aaaa"))
    driver.beat(OLD, Heartbeat(counter=1))
    write(writer, declared("orders-8-aaaa"))
    with pytest.raises(ControlUnavailable, match="has more records"):
        driver.beat(OLD, Heartbeat(counter=2))


class NewLeader(SimulatedTopic):
    """It leads since a moment ago, and does not know yet how far all replicas in sync are (KIP-207)."""

    shows: int | None = None

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        found = super().read(offset, size)
        if self.shows is None:
            return found
        messages = tuple(each for each in found.messages if each.offset < (self.shows or 0))
        return Fetched(messages, max(offset, min(found.next_offset, self.shows)), self.shows)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "READ_SECONDS", 0.05)


@pytest.mark.usefixtures("soon")
def test_a_new_leader_that_does_not_show_all_yet_is_an_outage_and_no_other_log(
    log: SimulatedLog, writer: ControlLog
) -> None:
    for driver in (OLD, NEW):
        for number in range(40):
            writer.beat(driver, Heartbeat(counter=number))
    write(writer, declared("orders-9-aaaa"))
    topic = NewLeader(log)
    store = TopicStore(topic, "orders")
    assert store.next_number(len(RUNNING)) == len(RUNNING) + 1
    topic.shows = len(RUNNING) + 10
    with pytest.raises(ControlUnavailable, match="does not return offset"):
        store.heartbeat(OLD)
    with pytest.raises(ControlUnavailable, match="does not return offset"):
        store._reader._read_all()
    topic.shows = None
    assert store.heartbeat(OLD) == writer.store.heartbeat(OLD)
    assert store.read(1) == writer.store.read(1)


@pytest.mark.usefixtures("soon")
def test_a_new_leader_loses_no_record_for_one_that_has_read_all(
    log: SimulatedLog, writer: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "_KEPT", 1)
    topic = NewLeader(log)
    store = TopicStore(topic, "orders")
    assert store.next_number(1) == 2
    topic.shows = 1
    with pytest.raises(ControlUnavailable, match="does not return offset 2"):
        store.read(3)
    topic.shows = None
    assert store.read(3) == writer.store.read(3)


class ByName(SimulatedTopic):
    """It reads whatever topic has the name, as a driver's client does; asking for the id fails once."""

    away = True

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        mine, self._id = self._id, self._log.id
        try:
            return super().read(offset, size)
        finally:
            self._id = mine

    def check_same(self) -> None:
        if self.away and self._log.id != self._id:
            self.away = False
            raise ControlUnavailable("It does not answer.")
        super().check_same()


def test_a_topic_that_may_be_another_one_is_asked_for_its_id_until_it_says_it(
    log: SimulatedLog, writer: ControlLog
) -> None:
    driver = opened(ByName(log))
    driver.refresh()
    log.begin()
    other = opened(SimulatedTopic(log))
    write(other, *(declared(f"orders-{number}-aaaa") for number in range(len(RUNNING))))
    other.beat(NEW, Heartbeat(counter=1))
    with pytest.raises(ControlUnavailable, match="does not answer"):
        driver.refresh()
    for _ in range(2):
        with pytest.raises(ControlLogReplaced, match="made anew"):
            driver.refresh()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_heartbeat_that_a_person_removes_is_gone_at_once(
    log: SimulatedLog, writer: ControlLog, compacted: bool
) -> None:
    for driver in (OLD, NEW):
        writer.beat(driver, Heartbeat(counter=1))
    log.append(heartbeat_key(OLD).encode(), None, {})  # as kafka-console-producer.sh writes it
    if compacted:
        log.compact(log.end, tombstones=False)
    assert writer.store.heartbeats() == opened(SimulatedTopic(log)).store.heartbeats() == [NEW]


def test_a_topic_that_was_put_back_and_has_grown_is_another_one(log: SimulatedLog, writer: ControlLog) -> None:
    copied = list(log.messages)
    write(writer, declared("orders-9-aaaa"))
    driver = opened(ByName(log))
    driver.refresh()
    log.begin()
    log.messages, log.end = copied, len(copied)
    others = TopicStore(SimulatedTopic(log), "orders")
    for _ in range(3):
        others.catch_up()
    with pytest.raises(ControlUnavailable, match="does not answer"):
        driver.refresh()
    for _ in range(2):
        with pytest.raises(ControlLogReplaced, match="made anew"):
            driver.refresh()


def test_a_topic_that_has_lost_its_end_and_grown_again_is_another_one(log: SimulatedLog, writer: ControlLog) -> None:
    write(writer, declared("orders-9-aaaa"))
    writer.beat(NEW, Heartbeat(counter=1))
    drivers = [opened(SimulatedTopic(log)) for _ in range(2)]
    for driver in drivers:
        driver.refresh()
    del log.messages[-2:]
    log.end -= 2
    for driver in drivers:
        with pytest.raises(ControlLogDamaged):
            driver.refresh()
    # Those who have read the lost record write on: they must not believe each other.
    with pytest.raises(ControlLogDamaged):
        writer.beat(OLD, Heartbeat(counter=1))
    with pytest.raises(ControlLogReplaced, match="lost its end"):
        writer.beat(OLD, Heartbeat(counter=2))
    for driver in drivers:
        with pytest.raises(ControlLogReplaced, match="lost its end"):
            driver.refresh()


@pytest.mark.usefixtures("soon")
def test_a_broker_that_was_behind_has_lost_no_end(log: SimulatedLog, writer: ControlLog) -> None:
    driver = opened(SimulatedTopic(log))
    driver.refresh()
    last, log.end = log.end, log.end - 1
    kept = log.messages.pop()
    with pytest.raises(ControlLogDamaged):
        driver.refresh()
    log.messages.append(kept)
    log.end = last
    assert driver.refresh() == writer.state
