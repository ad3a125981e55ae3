"""Where the committed offsets of a stream are found; reading them is in test_committed_offsets.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import Owner
from airflow_stream_provider.lag.committed_offsets import CommittedOffsets, Missing
from airflow_stream_provider.lag.targets import stream_sources
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource
from airflow_stream_provider.lifecycle.state import Deployment, Incarnation, IncarnationState, StreamState
from tests.support.control_root import new_log

HOLDER = "orders-1.00000001"
OWNER = Owner("orders", "file:///control")


def state(*queries: dict[str, Any]) -> StreamState:
    holder = Incarnation(HOLDER, "orders-1", IncarnationState.HOLDER, queries, epoch=1)
    anything: Any = None
    deployments = {"orders-1": Deployment("orders-1", anything, anything)}
    return StreamState(incarnations={HOLDER: holder}, deployments=deployments, holder=HOLDER, last_holder=HOLDER)


def sources(*queries: dict[str, Any], beat: Heartbeat | None = None) -> list[CommittedOffsets]:
    return stream_sources("orders", "file:///control", state(*queries), {HOLDER: beat} if beat else {})


def test_the_checkpoint_is_asked_where_this_machine_has_its_folder(tmp_path: Path) -> None:
    query = {"name": "a", "checkpoint": f"{tmp_path}/a", "sources": ["kafka:subscribe=t"], "read_committed": True}
    assert sources(query) == [CommittedOffsets("a", checkpoint=f"{tmp_path}/a", read_committed=True, owner=OWNER)]


@pytest.mark.parametrize("location", ["s3://bucket/a", "/no/such/mount/a"])
def test_else_the_heartbeat_of_the_holder_is(location: str) -> None:
    beat = Heartbeat(counter=1)
    query = {"name": "a", "checkpoint": location, "sources": ["kafka:subscribe=t"]}
    assert sources(query, beat=beat) == [CommittedOffsets("a", beat, owner=OWNER)]
    assert sources(query)[0].read().problem


def test_a_folder_that_cannot_be_looked_at_is_not_here(tmp_path: Path) -> None:
    query = {"name": "a", "checkpoint": f"{tmp_path}/{'x' * 300}/a", "sources": ["kafka:subscribe=t"]}
    assert sources(query)[0].checkpoint == ""


def test_a_query_that_was_started_later_is_known_from_the_heartbeat(tmp_path: Path) -> None:
    beat = Heartbeat(queries=(QueryProgress("a"), QueryProgress("late", f"{tmp_path}/late")))
    found = sources({"name": "a", "checkpoint": f"{tmp_path}/a", "sources": ["rate:"]}, beat=beat)
    assert [(each.checkpoint, each.query) for each in found] == [(f"{tmp_path}/late", "late")]


def test_a_driver_that_says_which_kafka_it_reads_is_believed(tmp_path: Path) -> None:
    source = {"option": "subscribe", "topics": "t", "servers": ["kafka:9092"], "read_committed": True}
    query = {"name": "a", "checkpoint": f"{tmp_path}/a", "sources": ["kafka:subscribe=t"], "kafka_sources": [source]}
    (found,) = sources(query)
    assert found.sources == (KafkaSource("subscribe", "t", ("kafka:9092",), True),)


def test_partitions_that_are_assigned_do_not_grow(tmp_path: Path) -> None:
    found = [
        sources({"name": "a", "checkpoint": f"{tmp_path}/a", "sources": names})[0].missing
        for names in (["kafka:assign={}"], ["kafka:assign={}", "kafka:subscribe=t"])
    ]
    assert found == [Missing.NOT_READ, Missing.FROM_START]


def test_for_how_long_a_query_may_be_quiet_is_known_from_the_heartbeat() -> None:
    query = {"name": "a", "checkpoint": "s3://bucket/a", "sources": ["kafka:subscribe=t"]}
    last: dict[str, Any] = {
        "batch": 7,
        "committed": ({"t": {"0": 9}},),
        "commits": (Commit(1000.0, {"t": {"0": 9}}),),
    }

    def until(**said: Any) -> float | None:
        beats = {HOLDER: Heartbeat(queries=(QueryProgress("a", **last, **said),))}
        (found,) = stream_sources("orders", "file:///control", state(query), beats)
        return found.read().quiet_until

    assert until() is None, "a driver that does not say it"
    assert until(quiet_seconds=0.0) == 1000.0
    assert until(quiet_seconds=900.0, begun_at=500.0) == 1900.0
    assert until(quiet_seconds=600.0, begun_at=4600.0) == 5200.0, "started once more, an hour after its last commit"
    assert until(quiet_seconds=0.0, begun_at=500.0, ended=True) == math.inf, "it runs again when the script wants it"


def test_queries_that_do_not_read_kafka_have_no_lag() -> None:
    assert sources({"name": "a", "checkpoint": "/a", "sources": ["rate:", "FileSource"]}) == []


def test_a_stream_that_nobody_ran_has_no_sources() -> None:
    assert stream_sources("orders", "file:///control", StreamState(), {}) == []


def test_the_topics_that_the_watch_noted_are_compared(tmp_path: Path) -> None:
    store = new_log(tmp_path.as_uri(), "orders").store
    store.put_topic_ids(b'{"queries": {"spark-1": {"t": "7"}}}')
    query = {"name": "a", "checkpoint": "s3://bucket/a", "sources": ["kafka:subscribe=t"]}
    (found,) = stream_sources("orders", "file:///control", state(query), {}, store)
    assert found.noted == {"spark-1": {"t": "7"}}
