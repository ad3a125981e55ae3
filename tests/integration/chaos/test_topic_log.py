"""A control log in the topic of a real broker as a run records it, while that broker is frozen and killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.kafka.control_topic import KafkaTopic
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos import sightings
from chaos.topic_copy import TopicCopy
from chaos.topic_log import TopicLog
from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from tests.support.one_broker import root_of
from tests.support.story import OLD, RUNNING, write

__all__ = ["root_of"]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as brokers:
        yield brokers


@pytest.fixture
def log(root_of: Callable[[str], TopicRoot]) -> ControlLog:
    root = root_of("streams")
    root.make()
    return ControlLog(root.store("orders", create=True), "orders")


@pytest.fixture
def seen(kafka: KafkaCluster, log: ControlLog) -> Iterator[TopicLog]:
    with (
        kafka.client() as client,
        TopicLog(KafkaTopic(lambda: client, "test", topic_name("streams", "orders")), "orders") as reads,
    ):
        yield reads


def beat(log: ControlLog, counter: int) -> None:
    log.beat(OLD, Heartbeat(counter=counter, phase="running"))


def test_everything_is_recorded_with_the_broker_s_times(
    log: ControlLog, seen: TopicLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sightings, "GAP_SECONDS", 600.0)  # a busy machine may take longer between two heartbeats
    write(log, *RUNNING)
    for counter in (1, 2, 3):
        beat(log, counter)
    wait_for("the last heartbeat", lambda: OLD in seen.sightings and seen.sightings[OLD].last.counter == 3)
    assert [record.kind for record, _ in seen.records] == [each.kind for each in RUNNING]
    times = [at for _, at in seen.records]
    assert times == sorted(times)
    [span] = seen.sightings[OLD].spans
    assert times[-1] <= span.since <= span.until
    assert ControlLog(TopicCopy(seen), "orders").refresh() == log.refresh()
    assert seen.gaps() == []


@pytest.mark.parametrize("how", ["freeze", "kill"])
def test_while_its_broker_is_away_it_keeps_what_it_knows_and_goes_on_then(
    kafka: KafkaCluster, log: ControlLog, seen: TopicLog, how: str
) -> None:
    write(log, *RUNNING[:3])
    beat(log, 1)
    wait_for("them", lambda: len(seen.records) == 3 and seen.heartbeats() == [OLD])
    (kafka.freeze if how == "freeze" else kafka.kill)(1)
    try:
        follower = ControlLog(TopicCopy(seen), "orders")
        assert follower.refresh().seq == 3
        assert follower.heartbeat(OLD) is not None
    finally:
        (kafka.thaw if how == "freeze" else kafka.start)(1)
    # The writer's first tries may meet a broker that is not back yet.
    wait_for("the others to be written", lambda: written(log))
    beat(log, 2)
    wait_for("them", lambda: len(seen.records) == len(RUNNING) and seen.sightings[OLD].last.counter == 2)
    assert seen.gaps() == []


def written(log: ControlLog) -> bool:
    try:
        done = log.refresh().seq
        write(log, *RUNNING[done:])
    except ControlUnavailable:
        return False
    return True
