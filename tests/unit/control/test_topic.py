"""Names of control topics, and how one is read to its end."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control import topic as topics
from airflow_stream_provider.control.topic import Fetched, Message, read_all, root_name, topic_name
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic


def test_a_streams_topic_and_that_of_the_root_have_the_prefix() -> None:
    assert (topic_name("prod.streams", "orders"), root_name("streams")) == ("prod.streams.orders", "streams._root")
    for prefix in ("", ".", "..", "a/b", "a b", "p" * 200):
        with pytest.raises(SpecError, match="cannot begin the names of topics"):
            root_name(prefix)
    with pytest.raises(SpecError):
        topic_name("streams", "_root")


def test_a_topic_is_read_to_its_end_in_order_and_from_there_on() -> None:
    log, seen = SimulatedLog(), list[bytes | None]()
    topic = SimulatedTopic(log)

    def read(offset: int, least: int = 0) -> int:
        return read_all(topic, offset, lambda messages: seen.extend(each.key for each in messages), least)

    assert read(0) == 0
    for number in range(12):
        log.append(b"%d" % number, b"", {})
    assert read(0) == read(12) == 12
    log.append(b"12", b"", {})
    assert read(12, least=13) == 13
    assert seen == [b"%d" % number for number in range(13)]


class Stuck(SimulatedTopic):
    def read(self, offset: int, size: int = 0) -> Fetched:
        return Fetched((Message(0, b"old", b"", {}),), 1, 1)


def test_what_kafka_has_and_does_not_send_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "READ_SECONDS", 0.05)
    seen = list[Message]()
    with pytest.raises(ControlUnavailable, match="does not return offset 1, though it goes up to 2"):
        read_all(Stuck(SimulatedLog()), 1, seen.extend, least=2)
    assert seen == []
