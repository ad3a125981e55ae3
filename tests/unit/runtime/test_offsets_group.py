"""What reaches the consumer group, and what never does: a Kafka that is away or hangs costs the stream nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.heartbeat import OffsetsGroupStatus, QueryProgress
from airflow_stream_provider.runtime import offsets_group
from airflow_stream_provider.runtime.offsets_group import FinishedBatch, OffsetsGroup, slowest
from devstack.checkpoint_trees import commit, kafka, new, plan
from devstack.drivers import wait_for

Commits = Mapping[tuple[str, int], tuple[int, str]]


class Recorder:
    """A consumer group that notes what it is told, and may be away, hang, or know two clusters."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[tuple[str, int], tuple[int, str]]]] = []
        self.where: dict[str, str] = {"out": "one", "totals": "one"}
        self.away: set[str] = set()
        self.tries = 0
        self.closed = 0
        self.open = threading.Event()
        self.open.set()

    def clusters(self) -> Mapping[str, str]:
        return self.where

    def commit(self, cluster: str, commits: Commits) -> None:
        self.tries += 1
        assert self.open.wait(60)
        if cluster in self.away:
            raise RuntimeError("no broker answers")
        self.told.append((cluster, dict(commits)))

    def close(self) -> None:
        self.closed += 1


class Holder:
    def __init__(self, group: Recorder) -> None:
        self.holds = True
        self.group = group
        self.offsets = OffsetsGroup(cast(Any, group), lambda: self.holds)

    def turn(self, *queries: QueryProgress) -> float:
        """What the heartbeat does, and then the side thread; return when that is to do so again."""
        self.offsets.offer(queries)
        return self.offsets.turn()


@pytest.fixture
def group() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.open.set()


@pytest.fixture
def holder(group: Recorder) -> Holder:
    return Holder(group)


def ran(name: str, batch: int, *sources: object, checkpoint: str = "/nowhere") -> QueryProgress:
    return QueryProgress(name, checkpoint, batch=batch, committed=sources)


def test_each_finished_batch_is_committed_once_with_its_number(holder: Holder, group: Recorder) -> None:
    holder.turn(ran("out", 7, {"orders": {"0": 10, "1": 20}}))
    holder.turn(ran("out", 7, {"orders": {"0": 10, "1": 20}}))
    holder.turn(ran("out", 8, {"orders": {"0": 15, "1": 20}}))
    assert group.told == [
        ("one", {("orders", 0): (10, "7"), ("orders", 1): (20, "7")}),
        ("one", {("orders", 0): (15, "8"), ("orders", 1): (20, "8")}),
    ]
    assert holder.offsets.status.at is not None


def test_all_kafka_sources_and_no_others(holder: Holder, group: Recorder) -> None:
    holder.turn(ran("out", 1, {"orders": {"0": 1}}, {"logOffset": 5}, None, {"clicks": {"0": 2}}))
    assert group.told == [("one", {("orders", 0): (1, "1"), ("clicks", 0): (2, "1")})]


def test_while_kafka_hangs_only_the_newest_is_kept(holder: Holder, group: Recorder) -> None:
    group.open.clear()
    first = start(lambda: holder.turn(ran("out", 0, {"orders": {"0": 0}})), "test")
    wait_for("a try", lambda: group.tries)
    began = time.monotonic()
    for batch in range(1, 1001):
        holder.offsets.offer([ran("out", batch, {"orders": {"0": batch}})])
    holder.offsets.flush(lambda: [ran("out", 1001, {"orders": {"0": 1001}})], 0.1)
    assert time.monotonic() - began < 30, "neither may wait for Kafka"
    group.open.set()
    first.result(60)
    wait_for("Kafka to be told", lambda: len(group.told) == 2)
    assert [told for _, told in group.told] == [{("orders", 0): (0, "0")}, {("orders", 0): (1001, "1001")}]


def test_a_kafka_that_is_away_is_told_when_it_is_back(holder: Holder, group: Recorder) -> None:
    group.away = {"one"}
    pauses = [holder.turn(ran("out", 3, {"orders": {"0": 3}})) for _ in range(8)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    holder.offsets._failures = 5000  # days of trouble
    assert holder.offsets.turn() == 60.0
    assert "no broker answers" in holder.offsets.status.problem
    assert group.closed == 9, "a client that failed is not kept"
    group.away = set()
    assert holder.offsets.turn() == 1.0
    assert group.told == [("one", {("orders", 0): (3, "3")})]
    assert not holder.offsets.status.problem


def test_one_cluster_that_is_away_does_not_keep_the_other_waiting(holder: Holder, group: Recorder) -> None:
    group.where, group.away = {"out": "one", "totals": "two"}, {"one"}
    holder.turn(ran("out", 3, {"orders": {"0": 3}}), ran("totals", 4, {"orders": {"0": 4}}))
    assert ("two", {("orders", 0): (4, "4")}) in group.told


def test_two_queries_on_one_topic_stand_where_the_slower_is() -> None:
    fast, slow = (
        FinishedBatch(9, {"orders": {0: 90, 1: 10}}),
        FinishedBatch(3, {"orders": {0: 30, 1: 11}, "clicks": {0: 5}}),
    )
    assert slowest([fast, slow]) == {("orders", 0): (30, "3"), ("orders", 1): (10, "9"), ("clicks", 0): (5, "3")}
    assert slowest([]) == {}


def test_a_query_that_has_ended_holds_back_nothing_and_still_says_where_it_ended(
    holder: Holder, group: Recorder
) -> None:
    slow = ran("out", 1, {"orders": {"0": 10}, "old": {"0": 1}})
    holder.turn(slow, ran("totals", 4, {"orders": {"0": 40, "1": 7}}))
    assert group.told == [("one", {("orders", 0): (10, "1"), ("orders", 1): (7, "4"), ("old", 0): (1, "1")})]
    # Its last batch is news, and nobody else reads one of its topics.
    slow = replace(slow, batch=2, committed=({"orders": {"0": 20}, "old": {"0": 2}},), ended=True)
    holder.turn(slow, ran("totals", 4, {"orders": {"0": 40, "1": 7}}))
    assert group.told[1:] == [("one", {("orders", 0): (40, "4"), ("old", 0): (2, "2")})]
    holder.turn(slow, ran("totals", 5, {"orders": {"0": 50, "1": 7}}))
    assert group.told[2:] == [("one", {("orders", 0): (50, "5"), ("orders", 1): (7, "5")})]


def test_when_all_have_ended_the_group_stands_where_the_slowest_ended(holder: Holder, group: Recorder) -> None:
    ended = [
        replace(ran(name, batch, {"orders": {"0": batch}}), ended=True) for name, batch in (("out", 8), ("totals", 9))
    ]
    holder.turn(*ended)
    assert group.told == [("one", {("orders", 0): (8, "8")})]


def test_a_query_that_another_one_has_replaced_is_forgotten(holder: Holder, group: Recorder) -> None:
    """The script may give the next query on a checkpoint another name."""
    holder.turn(ran("out", 3, {"orders": {"0": 3}}))
    group.where["next"] = "one"
    holder.turn(ran("next", 4, {"orders": {"0": 4}}))
    assert group.told[1:] == [("one", {("orders", 0): (4, "4")})]


def test_who_does_not_hold_commits_nothing(holder: Holder, group: Recorder) -> None:
    holder.holds = False
    holder.turn(ran("out", 1, {"orders": {"0": 1}}))
    assert group.told == []
    holder.holds = True
    holder.turn(ran("out", 1, {"orders": {"0": 1}}))
    assert len(group.told) == 1


def test_who_has_handed_over_forgets_what_it_knew_and_gives_up_what_is_under_way(
    holder: Holder, group: Recorder
) -> None:
    holder.turn(ran("out", 1, {"orders": {"0": 1}}))
    group.away = {"one"}
    holder.turn(ran("out", 2, {"orders": {"0": 2}}))
    closed = group.closed
    holder.offsets.withdraw()
    wait_for("what is under way to be given up", lambda: group.closed > closed)
    group.away = set()
    holder.offsets.turn()
    assert len(group.told) == 1, "the next holder has said more since"
    # Holding again: it says so even if nothing has changed here, for the other one may have.
    holder.turn(ran("out", 1, {"orders": {"0": 1}}))
    assert [told for _, told in group.told] == [{("orders", 0): (1, "1")}] * 2


def test_a_query_that_has_run_no_batch_yet_stands_where_its_checkpoint_does(
    holder: Holder, group: Recorder, tmp_path: Path
) -> None:
    root = new(tmp_path / "out")
    for batch in (1, 2):
        plan(root, batch, kafka(orders={0: batch * 10}))
        commit(root, batch)
    plan(root, 3, kafka(orders={0: 30}))  # planned, not done
    idle = QueryProgress("out", str(tmp_path / "out"), "kafka")
    holder.turn(idle, QueryProgress("totals", str(tmp_path / "none"), "kafka"))
    assert group.told == [("one", {("orders", 0): (20, "2")})]


def test_kafka_is_told_again_before_it_forgets_an_idle_group(
    holder: Holder, group: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder.turn(ran("out", 1, {"orders": {"0": 1}}))
    monkeypatch.setattr(offsets_group, "AGAIN_SECONDS", 0.0)
    holder.offsets.turn()
    assert len(group.told) == 2
    assert len({str(told) for told in group.told}) == 1


def test_without_a_group_nothing_is_done() -> None:
    none = OffsetsGroup(None, lambda: True)
    none.offer([ran("out", 1, {"orders": {"0": 1}})])
    none.turn()
    none.flush(lambda: [], 30)
    none.withdraw()
    assert none.status == OffsetsGroupStatus()
