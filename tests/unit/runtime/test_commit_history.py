"""Which commits of a query a heartbeat carries, with which times, and how large they get."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from airflow_stream_provider.lag.committed_offsets import WINDOW
from airflow_stream_provider.lifecycle.heartbeat import Batch, Commit, QueryProgress
from airflow_stream_provider.runtime.heartbeat_writer import BATCHES, COMMITS, PARTITIONS, CommitHistory

BEGAN = 1735689600.0  # 2025-01-01T00:00:00Z


def ran(batch: int | None, *sources: Any, name: str = "out", seconds: float | None = 0.5) -> QueryProgress:
    """Progress of a batch that began so many minutes after BEGAN."""
    at = f"2025-01-01T00:{batch or 0:02}:00.000Z"
    return QueryProgress(name, batch=batch, batch_seconds=seconds, triggered_at=at, committed=sources)


def after(history: CommitHistory, *looks: QueryProgress, now: float = 5.0) -> Sequence[Commit]:
    found: tuple[QueryProgress, ...] = ()
    for look in looks:
        found = history.add([look], now)
    return found[0].commits


def test_each_batch_is_kept_once_with_the_time_at_which_spark_ended_it() -> None:
    looks = [ran(None), ran(0, {"t": {"0": 5}}), ran(0, {"t": {"0": 5}}), ran(2, {"t": {"0": 9}}, {"logOffset": 3})]
    assert after(CommitHistory(), *looks) == (
        Commit(BEGAN + 0.5, {"t": {"0": 5}}),
        Commit(BEGAN + 120.5, {"t": {"0": 9}}),
    )


def test_only_the_last_ten_are_kept() -> None:
    assert COMMITS == WINDOW
    found = after(CommitHistory(), *(ran(batch, {"t": {"0": batch}}) for batch in range(30)))
    assert [commit.offsets for commit in found] == [{"t": {"0": batch}} for batch in range(20, 30)]


def test_a_commit_of_an_earlier_driver_has_no_time_and_one_that_was_missed_has_that_of_the_look() -> None:
    """While no records come, Spark tells of the batch that it would run next, with no time of the last one."""
    history = CommitHistory()
    assert after(history, ran(7, {"t": {"0": 7}}, seconds=None)) == ()
    assert after(history, ran(8, {"t": {"0": 8}}, seconds=None), now=99.0) == (Commit(99.0, {"t": {"0": 8}}),)


def test_a_time_that_cannot_be_read_is_that_of_the_look() -> None:
    odd = QueryProgress("out", batch=2, batch_seconds=1.0, triggered_at="yesterday", committed=({"t": {"0": 2}},))
    assert after(CommitHistory(), ran(1, {"t": {"0": 1}}), odd, now=99.0)[-1] == Commit(99.0, {"t": {"0": 2}})


def test_queries_are_kept_apart_and_forgotten_together() -> None:
    history = CommitHistory()
    found = history.add([ran(1, {"t": {"0": 1}}), ran(2, {"t": {"0": 2}}, name="totals")], 5.0)
    assert [len(query.commits) for query in found] == [1, 1]
    history.forget()
    assert after(history, ran(1, {"t": {"0": 1}}, seconds=None)) == ()


def test_a_query_of_which_spark_tells_nothing_yet_is_where_it_was() -> None:
    history, done = CommitHistory(), ran(7, {"t": {"0": 7}})
    [before] = history.add([done], 5.0)
    assert history.add([QueryProgress("out")], 6.0) == (before,)
    [ended] = history.add([QueryProgress("out", ended=True)], 7.0)
    assert (ended.batch, ended.ended) == (7, True)
    history.forget()
    assert history.add([QueryProgress("out")], 8.0) == (QueryProgress("out"),)


def test_of_very_many_partitions_only_the_last_time_is_kept() -> None:
    many, few = ({"t": {str(n): 10**12 + n for n in range(count)}} for count in (PARTITIONS + 1, PARTITIONS))
    history = CommitHistory()
    assert after(history, ran(1, few), ran(2, few), ran(3, many)) == (Commit(BEGAN + 180.5),)
    found = after(history, ran(4, few), ran(5, few))
    assert [commit.at for commit in found] == [BEGAN + 240.5, BEGAN + 300.5], "a time alone would pass for a commit"


def test_a_query_that_reads_no_kafka_has_a_time() -> None:
    assert after(CommitHistory(), ran(1, {"logOffset": 3}), ran(2, {"logOffset": 4})) == (Commit(BEGAN + 120.5),)


def test_the_commits_of_a_query_stay_small() -> None:
    positions = {"t": {str(n): 10**10 + n for n in range(PARTITIONS)}}
    commits = after(CommitHistory(), *(ran(batch, positions) for batch in range(12)))
    assert len(commits) == COMMITS
    assert len(json.dumps([asdict(commit) for commit in commits])) < 50_000


def test_batches_are_kept_whatever_the_source_is() -> None:
    """Of a folder of files no offsets of Kafka are known, and of its commits only the last one is kept."""
    history = CommitHistory()
    for batch in range(30):
        for _ in range(2):  # a batch that lasts for two looks
            [found] = history.add([replace(ran(batch, {"logOffset": batch}), input_rows=batch)], 5.0)
    assert BATCHES == len(found.batches) == 10
    assert found.batches[-1] == Batch(29, BEGAN + 29 * 60 + 0.5, 0.5, 29)
    history.forget()
    [found] = history.add([ran(None)], 5.0)
    assert found.batches == ()


def test_a_batch_whose_time_is_not_known_is_left_out() -> None:
    history = CommitHistory()
    history.add([ran(7, {"t": {"0": 7}}, seconds=None)], 5.0)
    odd = QueryProgress("out", batch=8, batch_seconds=1.0, triggered_at="yesterday")
    [found] = history.add([odd], 6.0)
    assert found.batches == ()


def test_a_query_that_is_started_again_tells_how_often_it_has_failed() -> None:
    history = CommitHistory()
    history.add([replace(ran(7, {"t": {"0": 7}}), failures=0)], 5.0)
    [found] = history.add([QueryProgress("out", failures=1, begun_at=5.5, quiet_seconds=60.0)], 6.0)
    assert (found.batch, found.failures, len(found.batches)) == (7, 1, 1)
    assert (found.begun_at, found.quiet_seconds) == (5.5, 60.0)
