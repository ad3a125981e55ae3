"""The queries of a script as a group: started, stopped, and started again when they fail."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from airflow_stream_provider import checkpoint
from airflow_stream_provider.checkpoint import LogEnds
from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.runtime import query_group
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from airflow_stream_provider.runtime.query_group import QueryGroup
from airflow_stream_provider.runtime.writer_spec import WriterSpec
from tests.support.real_run import real_run, writer


class Run:
    """A query that Spark runs, until it is told otherwise."""

    isActive = True

    def __init__(self) -> None:
        self.runId = str(uuid4())
        self.error: Exception | None = None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


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

    def stop(real: Any, seconds: float) -> QueryEnd:
        if real is runs[0]:
            raise missed
        return QueryEnd(completed=True, batch=7)

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    runs = [Run(), Run()]
    group = QueryGroup(gate_of("checkpoint", "checkpoint", runs=runs), lambda location: None)
    assert group.stop(1.0)[1] is missed


def test_a_query_that_the_script_has_cut_off_counts_at_the_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Run(), Run(), Run()]
    gate = gate_of("a", "b", "done", runs=runs)
    for query in gate.queries[1:]:
        query.real.stop()
        query.over = True
    ends = [QueryEnd(completed=end != 1, batch=7, running_tasks=int(end == 1)) for end in range(3)]
    monkeypatch.setattr(query_group, "stop_at_boundary", lambda run, seconds: ends[runs.index(run)])
    found, missed = QueryGroup(gate, lambda location: None).stop(1.0)
    assert ({label: end.quiet for label, end in found.items()}, missed) == ({"a": True, "b": False}, None)


def test_listeners_do_not_hear_of_the_ends_that_the_runtime_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: a script that leaves when a query ends took the stream down when a hand-over was aborted."""
    stopped, misses, failed, ends_itself = runs = [Run(), Run(), Run(), Run()]
    failed.isActive = ends_itself.isActive = False

    def stop(run: Any, seconds: float) -> QueryEnd:
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
    ended = threading.Event()

    class Hangs(Run):
        def stop(self) -> None:
            ended.wait(60)

    hangs, ends = Hangs(), Run()
    group = QueryGroup(gate_of("a", "b", runs=[hangs, ends]), lambda location: None)
    monkeypatch.setattr(checkpoint, "boundary", lambda location: LogEnds(8, 7))
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
    group.hold()
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
    group.hold()
    script = adding(gate, started, group)
    assert claiming.wait(30)
    with pytest.raises(BoundaryMissed, match="A query that the script adds has not started within 0 s"):
        group.pause(0.1)
    assert not group.paused
    go_on.set()
    script.join(30)
    assert started == [False]


# -- queries that fail -------------------------------------------------------------------------------------------------


class Query:
    """A managed query on a real checkpoint, as far as the group looks at it."""

    over = False
    writer_spec = WriterSpec()

    def __init__(self, checkpoint: Path) -> None:
        self.label = "orders"
        self.checkpoint = str(checkpoint)
        self.real: Run | None = None
        self.starts = 0
        self.refuses: Exception | None = None

    def start_real(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.starts += 1
        self.real = Run()

    def fails(self, error: str) -> None:
        assert self.real is not None
        self.real.isActive, self.real.error = False, ValueError(error)

    def commits(self, batch: int) -> None:
        for log in ("offsets", "commits"):
            folder = Path(self.checkpoint) / log
            folder.mkdir(parents=True, exist_ok=True)
            (folder / str(batch)).touch()


class Time:
    """The group's clock."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "orders")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(query_group, "time", found)
    return found


def group_of(query: Query, claimed: list[str] | None = None) -> QueryGroup:
    gate: Any = Gate()
    gate.queries.append(query)
    return QueryGroup(gate, (claimed if claimed is not None else []).append)


def started(query: Query) -> QueryGroup:
    group = group_of(query)
    group.start(group.hold(), {})
    return group


def attempts(group: QueryGroup, query: Query, clock: Time, error: str, seconds: float) -> list[float]:
    """Let every try fail at once; return the times of the tries, and fail when the query is given up."""
    began = clock.now
    tries: list[float] = []
    while clock.now < began + seconds:
        if query.real is not None and query.real.isActive:
            query.fails(error)
        due, lost = group.tend()
        if lost is not None:
            raise AssertionError(f"given up after {len(tries)}")
        if due:
            tries.append(clock.now - began)
            group.restart(due)
        clock.now += 1.0
    return tries


def test_an_outage_of_any_length_is_survived_by_a_release_that_has_committed(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    tries = attempts(group, query, clock, "The sink does not answer", 86_400)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert max(pauses) <= query_group.BACK_OFF_SECONDS + 2
    assert len(tries) > 86_400 / 400
    assert "The query orders failed" in group.trouble


def test_an_outage_of_the_checkpoints_storage_is_survived_too(query: Query, clock: Time) -> None:
    """Found by a review: the restart could not say how far the query was, and that ended the driver as failed."""
    group = started(query)
    query.commits(0)
    assert attempts(group, query, clock, "The sink does not answer", 10)
    commits = Path(query.checkpoint) / "commits"
    commits.rename(commits.with_name("away"))
    commits.touch()  # what is no folder cannot be listed
    query.refuses = OSError("Stale file handle")
    assert len(attempts(group, query, clock, "Stale file handle", 3600)) > 10
    query.refuses = None
    clock.now += query_group.BACK_OFF_SECONDS
    group.restart(group.tend()[0])
    assert query.real is not None
    assert query.real.isActive


def test_a_new_release_that_commits_nothing_is_given_up_so_that_it_is_rolled_back(query: Query, clock: Time) -> None:
    query.commits(7)  # by the release before
    group = started(query)
    with pytest.raises(AssertionError, match="given up after 3"):
        attempts(group, query, clock, "It is broken", 86_400)


def test_an_error_that_no_restart_cures_is_not_tried_again(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    query.fails("[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Partitions Set(1) are gone")
    due, lost = group.tend()
    assert query.real is not None
    assert (due, lost and lost[1]) == ([], query.real.error)


def test_a_stale_view_of_the_checkpoint_is_waited_out(query: Query, clock: Time) -> None:
    """Found by a review: without a pause, all attempts were used up within what an NFS client keeps of a folder."""
    query.commits(7)
    group = started(query)
    tries = attempts(group, query, clock, "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update", 60)
    assert tries[0] == 0.0
    assert len(tries) == query_group.CONCURRENT_ATTEMPTS - 2


def test_a_commit_ends_the_trouble_and_the_count_begins_again(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    assert len(attempts(group, query, clock, "x", 100)) == 6
    clock.now += query_group.BACK_OFF_SECONDS
    group.restart(group.tend()[0])
    query.commits(1)
    query.fails("x")
    group.tend()
    assert "failed, 1 times since its last commit, and is tried again after 1 s" in group.trouble
    clock.now += 1.0
    group.restart(group.tend()[0])
    assert group.trouble == ""


def test_a_restart_that_cannot_even_begin_is_tried_again(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    query.fails("The broker is away")
    query.refuses = ValueError("The broker is still away")
    assert len(attempts(group, query, clock, "", 100)) == 6
    query.refuses = None
    assert attempts(group, query, clock, "", 100)
    assert query.starts >= 2


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


def test_a_driver_that_takes_the_stream_back_has_proven_itself_before(
    query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = started(query)
    query.commits(0)
    monkeypatch.setattr(query_group, "stop_at_boundary", lambda real, seconds: QueryEnd(completed=True, batch=0))
    assert group.stop(1.0) == ({"orders": QueryEnd(completed=True, batch=0, checkpoint=query.checkpoint)}, None)
    group.start(group.hold(), {})
    assert len(attempts(group, query, clock, "The sink does not answer", 3600)) > 10


def test_a_query_starts_only_where_its_former_holder_stopped(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[tuple[str, int, bool]] = []

    def wait(location: str, batch: int, *, required: bool) -> None:
        awaited.append((location, batch, required))

    monkeypatch.setattr(checkpoint, "await_commit", wait)
    claimed: list[str] = []
    group = group_of(query, claimed)
    group.start([query], {query.checkpoint: 7, "/another": 9})  # type: ignore[list-item]
    assert (awaited, claimed, query.starts) == ([(query.checkpoint, 7, True)], [query.checkpoint], 1)
    group.start([query], {query.checkpoint: 7}, required=False)  # type: ignore[list-item]
    assert awaited[1:] == [(query.checkpoint, 7, False)]


@pytest.mark.parametrize("spelling", ["{}/", "file:{}", "file://{}/"])
def test_a_release_that_writes_the_checkpoint_in_another_way_waits_too(
    spelling: str, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: it was accepted as the same checkpoint, and began where this machine saw it end."""
    awaited: list[int] = []
    monkeypatch.setattr(checkpoint, "await_commit", lambda location, batch, required: awaited.append(batch))
    group_of(query).start([query], {spelling.format(query.checkpoint): 7})  # type: ignore[list-item]
    query.checkpoint = spelling.format(query.checkpoint)
    group_of(query).start([query], {query.checkpoint: 8})  # type: ignore[list-item]
    assert awaited == [7, 8]


def test_a_query_starts_from_logs_that_were_listed_anew(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulation: after a fence a machine that knew an older listing ran committed batches again."""
    listed: list[tuple[str, int]] = []
    monkeypatch.setattr(checkpoint, "list_anew", lambda location: listed.append((location, query.starts)))
    group_of(query, []).start([query], {})  # type: ignore[list-item]
    assert (listed, query.starts) == ([(query.checkpoint, 0)], 1)


def test_an_engine_without_boundaries_does_not_start_late_either(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "writer_spec", WriterSpec(trigger={"continuous": "1 second"}))
    with pytest.raises(RehearsalRefused, match="The query orders runs in continuous mode"):
        started(query)
    assert query.starts == 0


def test_of_two_that_miss_their_boundary_the_one_that_could_reach_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    misses = [BoundaryMissed("It has none.", never=True), BoundaryMissed("It is still running a batch.")]

    def stop(real: Any, seconds: float) -> QueryEnd:
        raise misses[runs.index(real)]

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    runs = [Run(), Run()]
    assert QueryGroup(gate_of("a", "b", runs=runs), lambda location: None).stop(1.0)[1] is misses[1]
