from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import Owner, claim
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets, Missing
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from devstack import checkpoint_trees as trees


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.new(tmp_path / "checkpoint")


def at(root: Path, **more: Any) -> Committed:
    return CommittedOffsets("orders", checkpoint=str(root), **more).read()


def test_a_checkpoint_says_where_the_query_stands_and_how_it_came_there(root: Path) -> None:
    for batch in range(12):
        trees.plan(root, batch, trees.kafka(orders={0: batch}))
        trees.commit(root, batch, at=100.0 + batch)
    found = at(root, read_committed=True, missing=Missing.NOT_READ)
    assert found.offsets == {"orders": {0: 11}}
    assert found.window == tuple((100.0 + n, {"orders": {0: n}}) for n in range(2, 12))
    assert (found.batch, found.read_committed, found.missing, found.problem) == (11, True, Missing.NOT_READ, "")


def test_before_the_first_commit_the_start_counts(root: Path) -> None:
    trees.start(root, "0", trees.kafka(orders={0: 3}))
    assert at(root) == Committed("orders", {"orders": {0: 3}}, id=trees.QUERY)


def test_a_query_that_reads_no_kafka_has_no_offsets_and_no_problem(root: Path) -> None:
    trees.plan(root, 0, '{"logOffset":0}')
    trees.commit(root, 0, at=1.0)
    assert at(root) == Committed("orders", window=((1.0, {}),), batch=0, id=trees.QUERY)


def test_a_query_whose_topics_are_all_gone_is_not_one_without_lag(root: Path) -> None:
    trees.plan(root, 0, trees.kafka(orders={0: 5}))
    trees.commit(root, 0)
    trees.plan(root, 1, "{}")
    trees.commit(root, 1)
    assert at(root) == Committed("orders", problem="The query orders reads no Kafka topic any more.")


def test_every_checkpoint_that_says_nothing_says_why(root: Path) -> None:
    assert at(root).problem == f"The checkpoint {root} has no batch yet."
    assert at(root / "nowhere").problem == f"There is no checkpoint at {root}/nowhere."
    assert "only local and mounted" in CommittedOffsets("orders", checkpoint="s3://bucket/x").read().problem
    trees.put(trees.plan(root, 0, "1"), "v1\nrubbish\n1")
    trees.commit(root, 0)
    assert at(root).problem.startswith(f"The checkpoint file {root}/offsets/0 is damaged")


def test_the_checkpoint_of_another_stream_says_nothing_about_this_one(root: Path) -> None:
    trees.plan(root, 0, trees.kafka(orders={0: 3}))
    trees.commit(root, 0)
    mine = Owner("mine", "file:///control")
    assert at(root, owner=mine).offsets  # nobody's yet
    claim(root, "theirs", "file:///control")
    assert at(root, owner=mine).offsets == {}
    assert f"{root} belongs to the stream theirs of file:///control, not to mine" in at(root, owner=mine).problem


def test_a_heartbeat_says_where_its_query_stands() -> None:
    sources = [{"orders": {"0": 7, "1": 9}}, None, {"logOffset": 3}, {"orders": {"1": 8}}]
    beat = Heartbeat(
        queries=(QueryProgress("other"), QueryProgress("orders", id="7f", batch=4, committed=tuple(sources)))
    )
    found = CommittedOffsets("orders", beat, read_committed=True).read()
    assert found == Committed("orders", {"orders": {0: 7, 1: 8}}, batch=4, read_committed=True, id="7f")


def test_a_heartbeat_says_how_its_query_came_there() -> None:
    commits = (Commit(100.0, {"orders": {"0": 5}}), Commit(101.0, {"orders": {"0": 7}}))
    beat = Heartbeat(queries=(QueryProgress("orders", batch=4, committed=({"orders": {"0": 7}},), commits=commits),))
    found = CommittedOffsets("orders", beat).read()
    assert found.window == ((100.0, {"orders": {0: 5}}), (101.0, {"orders": {0: 7}}))


@pytest.mark.parametrize("offsets", [{}, {"orders": 5}, {"orders": {"0": "x"}}])
def test_a_time_without_offsets_says_only_how_long_ago_the_last_commit_was(offsets: Any) -> None:
    commits = tuple(Commit(at, offsets) for at in (98.0, 99.0, 100.0))
    beat = Heartbeat(queries=(QueryProgress("orders", batch=4, committed=({"orders": {"0": 7}},), commits=commits),))
    assert CommittedOffsets("orders", beat).read().window == ((100.0, {}),)


def test_offsets_that_a_heartbeat_has_left_out_are_unknown() -> None:
    beat = Heartbeat(queries=(QueryProgress("orders", batch=4, commits=(Commit(100.0),)),))
    assert "has no offsets of orders" in CommittedOffsets("orders", beat).read().problem


@pytest.mark.parametrize("queries", [(), (QueryProgress("other", batch=1),), (QueryProgress("orders", "/x"),)])
def test_a_heartbeat_before_the_first_batch_says_so(queries: tuple[QueryProgress, ...]) -> None:
    assert "committed no batch" in CommittedOffsets("orders", Heartbeat(queries=queries)).read().problem


def test_what_nobody_foresaw_is_the_problem_of_its_own_query() -> None:
    torn: Any = 5  # where topics should be
    found = CommittedOffsets("orders", Heartbeat(queries=(QueryProgress("orders", batch=4, committed=torn),))).read()
    assert found.problem.startswith("How far orders has read is unknown: TypeError")
