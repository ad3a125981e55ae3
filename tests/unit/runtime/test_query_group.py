"""The queries of a script as a group: started, stopped, and started again when they fail."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider import checkpoint
from airflow_stream_provider.checkpoint import LogEnds
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.runtime import query_group
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from airflow_stream_provider.runtime.query_group import QueryGroup
from devstack.drivers import wait_for
from tests.support.fake_queries import Query, Run, group_of, tended
from tests.support.real_run import real_run, writer


def gate_of(*labels: str, runs: Sequence[Run]) -> Any:
    """A gate whose queries, of these labels, run."""
    gate: Any = Gate()
    for label, run in zip(labels, runs, strict=True):
        gate.queries.append(SimpleNamespace(label=label, checkpoint="/a", real=run, over=False))
    return gate


def test_where_queries_have_ended_is_read_in_their_checkpoints(tmp_path: Path) -> None:
    gate = gate_of("a", "elsewhere", runs=[Run(), Run()])
    gate.queries[0].checkpoint, gate.queries[1].checkpoint = str(tmp_path), "s3a://bucket/b"
    for log, batch in (("offsets", 0), ("commits", 0), ("offsets", 1)):
        (tmp_path / log).mkdir(exist_ok=True)
        (tmp_path / log / str(batch)).touch()
    found = QueryGroup(gate, lambda location: None).ended()
    assert found == {"a": QueryEnd(completed=False, batch=0, checkpoint=str(tmp_path))}


def test_one_query_that_misses_its_boundary_is_seen_whatever_the_others_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by a review: by label, the end of a namesake stood for it, and `released` was written while it ran."""
    missed = BoundaryMissed("It is still running a batch.")

    def stop(real: Any, seconds: float, committed: int | None) -> QueryEnd:
        if real is runs[0]:
            raise missed
        return QueryEnd(completed=True, batch=7)

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    runs = [Run(), Run()]
    group = QueryGroup(gate_of("checkpoint", "checkpoint", runs=runs), lambda location: None)
    assert group.stop(1.0)[1] is missed


def test_of_two_that_miss_their_boundary_the_one_that_could_reach_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    misses = [BoundaryMissed("It has none.", never=True), BoundaryMissed("It is still running a batch.")]

    def stop(real: Any, seconds: float, committed: int | None) -> QueryEnd:
        raise misses[runs.index(real)]

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    runs = [Run(), Run()]
    assert QueryGroup(gate_of("a", "b", runs=runs), lambda location: None).stop(1.0)[1] is misses[1]


AWAY = CheckpointError("hdfs://n/commits cannot be read: its storage has not answered for 10 s.", next_step="Wait.")


def test_a_query_that_stopped_while_its_storage_is_silent_has_missed_its_boundary_and_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: the hand-over ended with the holder's failure, and both drivers were lost."""
    queries = [Query(tmp_path / name) for name in ("a", "b", "c")]
    group = group_of(*queries)
    group.start(group.hold(), {})
    queries[2].fails("its sink is away")  # it waits to be tried again
    tended(group)
    first = [query.real for query in queries]

    def stop(run: Run, seconds: float, committed: int | None) -> QueryEnd:
        run.stop()
        if run is not first[0]:
            raise AWAY
        return QueryEnd(completed=True, batch=7)

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    group.let_go()
    missed = group.stop(1.0)[1]
    assert missed is not None
    assert str(missed).startswith("The query orders has stopped, but nobody can say where: hdfs://n/commits cannot be")
    assert "never" not in missed.fields
    group.restart_in_place()
    assert all(query.real is not None and query.real.isActive for query in queries)
    assert [query.starts for query in queries] == [2, 2, 2]


def test_the_script_is_told_how_far_its_queries_are_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Told(Query):
        def follow(self, body: Any) -> None:
            told.append((self.checkpoint, body["batchId"]))

    told: list[Any] = []
    here, dropped = Told(tmp_path / "a"), Told(tmp_path / "b")
    where = f"file://{here.checkpoint}/"
    others = (QueryProgress("x", where, batch=7, spark={"batchId": 7}), QueryProgress("y", dropped.checkpoint, batch=7))
    group = group_of(here, dropped)
    group.follow(others)
    assert told == [(here.checkpoint, 7)]
    for spark in ({"batch": 8}, {"batchId": 9}):  # what no script can be shown ends no driver, and is logged once
        group.follow([QueryProgress("x", where, spark=spark)])
    assert told == [(here.checkpoint, 7)]
    assert caplog.text.count("cannot be shown to the script") == 1


def test_a_query_that_the_script_has_cut_off_counts_at_the_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Run(), Run(), Run()]
    gate = gate_of("a", "b", "done", runs=runs)
    for query in gate.queries[1:]:
        query.real.stop()
        query.over = True
    ends = [QueryEnd(completed=end != 1, batch=7, running_tasks=int(end == 1)) for end in range(3)]
    monkeypatch.setattr(query_group, "stop_at_boundary", lambda run, seconds, committed: ends[runs.index(run)])
    found, missed = QueryGroup(gate, lambda location: None).stop(1.0)
    assert ({label: end.quiet for label, end in found.items()}, missed) == ({"a": True, "b": False}, None)


def test_listeners_do_not_hear_of_the_ends_that_the_runtime_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: a script that leaves when a query ends took the stream down when a hand-over was aborted."""
    stopped, misses, failed, ends_itself = runs = [Run(), Run(), Run(), Run()]
    failed.isActive = ends_itself.isActive = False

    def stop(run: Any, seconds: float, committed: int | None) -> QueryEnd:
        if run is misses:
            raise BoundaryMissed("It is still running a batch.")
        run.stop()
        return QueryEnd(completed=True, batch=7)

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    gate = gate_of("a", "b", "c", "d", runs=runs)
    group = QueryGroup(gate, lambda location: None)
    group.stop(1.0)
    assert gate._stopped_runs == {stopped.runId}
    group.interrupt()
    assert gate._stopped_runs == {stopped.runId, misses.runId}


def test_a_batch_that_nothing_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_group, "CUT_SECONDS", 0.2)
    stopping, ended = threading.Event(), threading.Event()

    class Hangs(Run):
        def stop(self) -> None:
            stopping.set()
            ended.wait(60)
            super().stop()

    def wait(cuts: Any, seconds: float) -> None:
        """They are waited for once they have done what they ever will."""
        wait_for("both to be told", lambda: stopping.is_set() and not ends.isActive, 60)
        futures.wait(cuts, seconds)

    hangs, ends = Hangs(), Run()
    group = QueryGroup(gate_of("a", "b", runs=[hangs, ends]), lambda location: None)
    monkeypatch.setattr(checkpoint, "boundary", lambda location: LogEnds(8, 7))
    monkeypatch.setattr(query_group, "wait", wait)
    found = group.interrupt()
    assert (hangs.isActive, ends.isActive) == (True, False)
    assert found == {label: QueryEnd(completed=False, batch=7, checkpoint="/a") for label in "ab"}
    ended.set()


def test_a_query_whose_context_was_stopped_is_found_unless_it_is_over() -> None:
    gate = gate_of("a", "b", "c", runs=[Run(), Run(), Run()])
    group = QueryGroup(gate, lambda location: None)
    for query in gate.queries:
        query.context_stopped = False
    assert group.unable() is None
    gate.queries[0].context_stopped = gate.queries[0].over = True
    assert group.unable() is None
    gate.queries[1].context_stopped = gate.queries[2].context_stopped = True
    found = group.unable()
    assert found is not None
    assert (found[0], str(found[1])[:41]) == (gate.queries[1], "Its SparkContext has been stopped, by Spa")


# -- queries that the script adds while the others are paused ----------------------------------------------------------


def adding(gate: Gate, started: list[bool], group: QueryGroup) -> threading.Thread:
    """The thread of a script that adds a query, which notes whether the others are paused when it starts."""

    def start() -> Any:
        started.append(group.paused)
        return real_run()

    thread = threading.Thread(target=lambda: gate._register(writer("/data/late", "late"), start), daemon=True)
    thread.start()
    return thread


def test_a_query_that_the_script_adds_in_a_pause_starts_after_it() -> None:
    """Found by a review: it ran and committed though nobody knew whether this driver still held."""
    gate, started = Gate(), list[bool]()
    group = QueryGroup(gate, lambda location: None)
    group.start(group.hold(), {})
    group.pause(1.0)
    script = adding(gate, started, group)
    script.join(0.3)
    assert (script.is_alive(), started, gate.queries) == (True, [], [])
    group.resume()
    script.join(30)
    assert (started, [query.label for query in gate.queries]) == ([False], ["late"])


def test_a_start_that_is_under_way_ends_before_a_pause_begins() -> None:
    gate, started, claiming, go_on = Gate(), list[bool](), threading.Event(), threading.Event()

    def claim(location: str) -> None:
        claiming.set()
        assert go_on.wait(30)

    group = QueryGroup(gate, claim)
    group.start(group.hold(), {})
    script = adding(gate, started, group)
    assert claiming.wait(30)
    with pytest.raises(BoundaryMissed, match="A query that the script adds has not started within 0 s"):
        group.pause(0.1)
    assert not group.paused
    go_on.set()
    script.join(30)
    assert started == [False]


@pytest.mark.parametrize("again", [False, True])
def test_a_query_that_the_script_stops_before_it_has_started_is_not_started(again: bool, tmp_path: Path) -> None:
    """Found by a review: it ran, and nobody stopped it for a hand-over; started anew, two ran on one checkpoint."""
    gate, claiming, go_on = Gate(), threading.Event(), threading.Event()
    runs: list[Any] = []

    def claim(location: str) -> None:
        if not claiming.is_set():
            claiming.set()
            assert go_on.wait(30)

    def build() -> ManagedQuery:
        return gate._register(writer(str(tmp_path)), lambda: runs.append(real_run()) or runs[-1])

    group = QueryGroup(gate, claim)
    first = build()
    agent = threading.Thread(target=group.start, args=(group.hold(), {}), daemon=True)
    agent.start()
    assert claiming.wait(30)
    first.stop()
    second = [build()] if again else []
    go_on.set()
    agent.join(30)
    assert (first.real, [query.real for query in second], gate.live()) == (None, runs, second)
    assert len(runs) == len(second)
