"""A control root in a real Kafka: made once, and never taken for one without streams."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.owners import TopicOwners
from airflow_stream_provider.control.topic import root_name
from airflow_stream_provider.hooks import stream_releases as cleaning
from airflow_stream_provider.kafka import connect
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic, TopicRoot
from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, ControlUnavailable, SpecError
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.samples import LagSample
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import alter_topic
from tests.support.jvm_drivers import Driver, driver
from tests.support.one_broker import client, kafka, root_of
from tests.support.story import OLD, RUNNING, write

__all__ = ["client", "driver", "kafka", "root_of"]
PLACE = "hdfs://nn:9820/a"
_numbers = itertools.count(1)
RootOf = Callable[[str], TopicRoot]


@pytest.fixture
def root(root_of: RootOf) -> TopicRoot:
    made = root_of(f"streams-{next(_numbers)}")
    assert made.make()
    return made


def test_a_root_is_made_once_and_holds_streams(root: TopicRoot, root_of: RootOf) -> None:
    again = root_of(root.url.rpartition("/")[2])
    assert not again.make()
    again.check()
    assert not root.exists("orders")
    log = ControlLog(root.store("orders", create=True), "orders")
    write(log, *RUNNING)
    assert again.exists("orders")
    assert ControlLog(again.store("orders"), "orders").refresh().holder == OLD
    root.store("orders", create=True)  # of a stream that exists it changes nothing
    assert re.fullmatch("[0-9a-f]{32}", root.log_id("orders"))
    assert again.log_id("orders") == root.log_id("orders")
    root.store("payments", create=True)
    assert root.log_id("payments") != root.log_id("orders")
    assert ControlLog(root_of(again.url.rpartition("/")[2]).store("orders"), "orders").refresh().holder == OLD


def test_what_was_never_made_is_out_of_reach_and_not_empty(root_of: RootOf) -> None:
    root = root_of("nobody")
    for use in (root.check, lambda: root.exists("orders"), lambda: root.store("orders", create=True)):
        with pytest.raises(
            ControlUnavailable, match=r"is not a control root: there is no topic nobody\._root"
        ) as found:
            use()
        assert "airflow streams init kafka://kafka_test/nobody" in found.value.next_step


def test_streams_are_noted(root: TopicRoot, root_of: RootOf) -> None:
    assert root.noted() == {}
    for name in ("orders", "payments", "orders"):
        root.note(name, b"-")
    assert set(root.noted()) == {"orders", "payments"}
    assert root.noted("orders", "none") == {"orders": root.noted()["orders"]}
    assert root_of(root.url.rpartition("/")[2]).noted() == {"orders": b"-", "payments": b"-"}
    root.note("orders", b"anew")
    root.note(".p.streams__watch", b"{}")
    root.forget("payments")
    left = {"orders": b"anew", ".p.streams__watch": b"{}"}
    assert root.noted() == root_of(root.url.rpartition("/")[2]).noted() == left
    with pytest.raises(SpecError):
        root.note("../orders", b"-")


def test_what_else_is_in_the_topic_of_the_root_is_no_stream(root: TopicRoot) -> None:
    """One odd key would take all streams of the root out of reach, for ever."""
    root.note("orders", b"-")
    for name in ("Orders", "orders/2027", ""):
        root._write(f"seen/{name}", b"-")
    root.check()
    assert set(root.noted()) == {"orders"}


def test_what_a_person_removes_from_the_topic_of_the_root_is_gone(root: TopicRoot, root_of: RootOf) -> None:
    for name in ("orders", "payments"):
        root.note(name, b"-")
    root._root.write(b"seen/orders", None, {})
    assert root.noted() == root_of(root.url.rpartition("/")[2]).noted() == {"payments": b"-"}
    root._root.write(b"root", None, {})
    with pytest.raises(ControlUnavailable, match="is not a control root"):
        root.check()


def test_a_process_that_lives_on_reads_the_topic_that_is_there_now(
    root: TopicRoot, root_of: RootOf, kafka: KafkaCluster, client: KafkaClient
) -> None:
    """A triggerer, in which one wait follows the other: no clearing of the task would have helped."""
    prefix = root.url.rpartition("/")[2]
    first = ControlLog(root.store("orders", create=True), "orders")
    write(first, *RUNNING)
    assert root.store("orders") is first.store, "the topic is read once for all who use it now"
    client._admin.delete_topics([f"{prefix}.orders"])
    kafka.wait(lambda: f"{prefix}.orders" not in client.topics([f"{prefix}.orders"]))
    write(ControlLog(root_of(prefix).store("orders", create=True), "orders"), *RUNNING[:1])
    with pytest.raises(ControlLogReplaced):
        first.refresh()
    del first
    assert ControlLog(root.store("orders"), "orders").refresh().seq == 1


def test_samples_come_back_newest_first_and_the_oldest_go(root: TopicRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    store = root.store("orders", create=True)
    write(ControlLog(store, "orders"), *RUNNING)
    kept = root.samples("orders")
    assert samples.last(kept) is None
    for number in range(5):
        samples.append(kept, LagSample(float(number)))
    assert samples.last(kept) == LagSample(4.0)
    assert [each.at for each in samples.read(kept)] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_kafka_that_does_not_answer_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CONNECT_MS", 1000)
    root = TopicRoot("kafka://gone/streams", "gone", {"bootstrap.servers": "127.0.0.1:1"}, "streams")
    for use in (root.check, root.make, lambda: root.exists("orders"), root.noted):
        with pytest.raises(ControlUnavailable, match="connection 'gone'"):
            use()


def test_a_heartbeat_that_stands_still_is_read_again_behind_a_write(root: TopicRoot, client: KafkaClient) -> None:
    store = root.store("orders", create=True)
    log = ControlLog(store, "orders")
    write(log, *RUNNING)
    store.put_heartbeat(OLD, b"{}")
    looks = []
    write_one = store._topic.write
    store._topic.write = lambda key, value, headers: (looks.append(key), write_one(key, value, headers))[1]  # type: ignore[method-assign]
    store._caught_up = 0.0
    assert store.heartbeat(OLD) == b"{}"
    assert looks == []
    assert store.heartbeat(OLD) == b"{}"
    assert looks == [b"look"]


def alter(client: KafkaClient, topic: str, **settings: str) -> None:
    alter_topic(client, topic, {key.replace("_", "."): value for key, value in settings.items()})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cleanup_policy": "compact,delete"}, "has cleanup.policy=compact,delete; a control log needs compact"),
        ({"min_insync_replicas": "2"}, "has min.insync.replicas=2; a control log needs 1"),
        ({"message_timestamp_type": "CreateTime"}, "has message.timestamp.type=CreateTime"),
    ],
)
def test_a_topic_that_somebody_has_changed_is_refused_when_it_is_opened_and_named_by_the_check(
    root: TopicRoot, root_of: RootOf, client: KafkaClient, settings: dict[str, str], says: str
) -> None:
    for stream in ("orders", "payments"):
        root.store(stream, create=True)
        root.note(stream, b"-")
    prefix = root.url.rpartition("/")[2]
    alter(client, f"{prefix}.orders", **settings)
    fresh = root_of(prefix)
    with pytest.raises(SpecError, match=says) as found:
        fresh.store("orders")
    assert "kafka-configs.sh" in found.value.next_step
    fresh.store("payments")
    root.check()  # those that are open are looked at again
    with pytest.raises(SpecError, match=says):
        root.store("orders")
    alter(client, f"{prefix}.orders", cleanup_policy="compact", min_insync_replicas="1")
    alter(client, f"{prefix}.orders", message_timestamp_type="LogAppendTime")
    root.store("orders")


def test_a_client_whose_credentials_were_refused_is_opened_anew(root: TopicRoot) -> None:
    store = root.store("orders", create=True)
    first = root._client()
    first.refused = True  # as a request that is denied sets it
    store.put_heartbeat(OLD, b"{}")
    assert root._client() is not first
    assert first._closed


def test_heartbeats_that_nobody_needs_are_removed(root: TopicRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ControlLog(root.store("orders", create=True), "orders")
    write(log, *RUNNING)
    for name in (OLD, "orders-0-ffff.00000001"):
        log.store.put_heartbeat(name, b"{}")
    store = root.store("orders")
    assert cleaning.clean_up(store, log.refresh, []).heartbeats == set(), "they are new"
    monkeypatch.setattr(cleaning, "IDLE_SECONDS", -1.0)
    assert cleaning.clean_up(store, log.refresh, []).heartbeats == {"orders-0-ffff.00000001"}
    assert store.heartbeats() == [OLD]
    assert log.heartbeats().keys() == {OLD}


def test_of_twenty_streams_that_claim_a_checkpoint_at_once_one_owns_it(
    root: TopicRoot, kafka: KafkaCluster, driver: Callable[..., Driver]
) -> None:
    name = root_name(root.url.rpartition("/")[2])

    def owners() -> TopicOwners:
        return TopicOwners(lambda: KafkaTopic(root._client, "kafka_test", name))

    there = driver(kafka.servers, name)  # of these, one is a driver with its JVM
    assert there.says() == "open"
    for place in (f"{PLACE}/{number}" for number in range(5)):
        with ThreadPoolExecutor(20) as pool:
            asked = [pool.submit(owners().claim, place, f"s{number}") for number in range(19)]
            said = [there.says(f"claim {place} driver"), *(each.result() for each in asked)]
        assert len(set(said)) == 1
        assert owners().owner(place) == there.says(f"owner {place}") == said[0]
