"""The query that a script holds, before, between and after Spark's own runs of it; Spark's run is a stand-in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.runtime.managed_query import ManagedQuery, side_by_side
from airflow_stream_provider.runtime.writer_spec import writer_spec_of
from devstack.drivers import wait_for
from tests.support.real_run import Told, real_run, writer


def managed(told: Told | None = None, **spec: Any) -> ManagedQuery:
    return ManagedQuery(told or Told(), writer("/data/out", **spec), real_run)


@pytest.mark.parametrize(
    ("checkpoint", "name", "label"),
    [("/data/out", "", "out"), ("/data/out/", "", "out"), ("/data/out", "orders", "orders"), ("out", "", "out")],
)
def test_it_is_named_by_the_script_or_by_its_checkpoint(checkpoint: str, name: str, label: str) -> None:
    query = ManagedQuery(Told(), writer(checkpoint, name=name), real_run)
    assert (query.label, query.name, query.checkpoint) == (label, name, checkpoint)


def test_a_standby_looks_active_and_has_run_nothing() -> None:
    query = managed()
    assert (query.isActive, query.lastProgress, query.recentProgress, query.exception()) == (True, None, [], None)
    assert query.status["message"] == "Waiting to hold the stream"
    assert len({query.id, query.runId, managed().id, managed().runId}) == 4
    assert query.awaitTermination(0) is False
    with pytest.raises(AttributeError, match="this driver is a standby"):
        _ = query._jsq
    query.explain()


def test_once_it_runs_the_script_sees_sparks_run() -> None:
    query = managed()
    query.start_real()
    real: Any = query.real
    assert (query.id, query.runId, query.status) == (real.id, real.runId, real.status)
    assert (query.lastProgress, query.recentProgress) == (real.lastProgress, real.recentProgress)
    query.processAllAvailable()
    query.explain(True)
    assert real.did == ["processAllAvailable", "explain True"]


def test_a_query_is_found_by_the_id_that_the_script_saw_before_it_started() -> None:
    query = managed()
    seen = query.id
    query.start_real()
    query.start_real()
    assert query.id == "of-the-query"
    query.forget_run()  # as for a take-back, before it starts once more
    assert (query.id, query.goes_by(seen), query.goes_by("of-the-query")) == ("of-the-query", True, True)
    assert not query.goes_by(managed().id)


@pytest.mark.parametrize(("found", "known"), [('{"id":"7f1c"}', True), ("{", False), (None, False)])
def test_the_id_of_a_query_is_the_one_in_its_checkpoint(found: str | None, known: bool, tmp_path: Path) -> None:
    if found is not None:
        (tmp_path / "metadata").write_text(found)
    query = ManagedQuery(Told(), writer(str(tmp_path)), real_run)
    assert (query.id == "7f1c") is known


def test_a_run_that_was_stopped_for_a_hand_over_leaves_the_query_active() -> None:
    query = managed()
    query.start_real()
    first: Any = query.real
    first.stop()
    assert query.isActive
    assert query.awaitTermination(0) is False
    query.start_real()
    assert query.real is not first


@pytest.mark.parametrize("look", ["isActive", "status", "lastProgress", "recentProgress", "name", "id"])
def test_a_look_at_it_is_no_wait(look: str) -> None:
    told = Told()
    query = managed(told)
    getattr(query, look)
    assert query.awaitTermination(0) is False
    assert told.waits == 0


def test_a_timed_wait_counts_from_the_first_start() -> None:
    told = Told()
    query = managed(told)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(query.awaitTermination(1)), daemon=True)
    waiting.start()
    wait_for("it to wait", lambda: told.waits)
    waiting.join(2)
    assert (waiting.is_alive(), told.waits) == (True, 1)
    query.start_real()
    waiting.join(30)
    assert found == [False]


def test_its_end_wakes_whoever_waits() -> None:
    told = Told()
    query = managed(told)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(query.awaitTermination()), daemon=True)
    waiting.start()
    query.end()
    waiting.join(30)
    assert (found, query.over, query.isActive, told.ended) == ([None], True, False, 1)
    assert query.awaitTermination(0) is True


def test_an_error_that_ended_it_is_raised_where_the_script_waits() -> None:
    query = managed()
    error = ValueError("it broke")
    query.end(error)
    assert query.exception() is error
    for timeout in (None, 0):
        with pytest.raises(ValueError, match="it broke"):
            query.awaitTermination(timeout)


def test_a_script_that_stops_it_ends_it_for_good() -> None:
    query = managed()
    query.start_real()
    real: Any = query.real
    query.stop()
    assert (real.did, query.over) == (["stop"], True)
    never_started = managed()
    never_started.stop()
    never_started.processAllAvailable()
    never_started.start_real()
    assert (never_started.real, never_started.over) == (None, True)


@pytest.mark.parametrize("stopped", [False, True])
def test_it_knows_whether_its_context_was_stopped(stopped: bool) -> None:
    made = writer("/data/out")
    context = SimpleNamespace(isStopped=lambda: stopped)
    made._spark = SimpleNamespace(_jsparkSession=SimpleNamespace(sparkContext=lambda: context))
    assert ManagedQuery(Told(), made, real_run).context_stopped is stopped


def test_a_script_that_stops_it_while_it_starts_stops_what_has_started() -> None:
    starting, go_on = threading.Event(), threading.Event()

    def slowly() -> Any:
        starting.set()
        assert go_on.wait(30)
        return real_run()

    query = ManagedQuery(Told(), writer("/data/out"), slowly)
    agent = threading.Thread(target=query.start_real, daemon=True)
    agent.start()
    assert starting.wait(30)
    script = threading.Thread(target=query.stop, daemon=True)
    script.start()
    script.join(0.2)
    assert not query.over, "the script's stop waits"
    go_on.set()
    for thread in (agent, script):
        thread.join(30)
    real: Any = query.real
    assert (real.did, query.over) == (["stop"], True)


def test_two_may_stop_it_at_a_time_and_one_of_them_inside_its_batch() -> None:
    """Spark waits in `stop` for the batch, whose function may stop the query, too."""
    in_batch, batch_over = threading.Event(), threading.Event()

    run = real_run()

    def stop() -> None:
        if threading.current_thread() is outside:
            in_batch.set()
            assert batch_over.wait(30)

    run.stop = stop
    query = ManagedQuery(Told(), writer("/data/out"), lambda: run)
    query.start_real()
    outside = threading.Thread(target=query.stop, daemon=True)
    outside.start()
    assert in_batch.wait(30)
    inside = threading.Thread(target=query.stop, daemon=True)
    inside.start()
    inside.join(30)
    batch_over.set()
    outside.join(30)
    assert (inside.is_alive(), outside.is_alive(), query.over) == (False, False, True)


def test_a_stop_that_fails_leaves_the_query_as_it_is() -> None:
    def fails() -> None:
        raise TimeoutError("the query did not stop")

    run = real_run()
    run.stop = fails
    query = ManagedQuery(Told(), writer("/data/out"), lambda: run)
    query.start_real()
    with pytest.raises(TimeoutError):
        query.stop()
    assert not query.over
    query.forget_run()
    query.start_real()
    assert query.real is not None


def test_what_was_noted_of_its_writer_is_kept() -> None:
    noted: Any = SimpleNamespace()
    writer_spec_of(noted).options["checkpointlocation"] = "/data/out"
    assert ManagedQuery(Told(), noted, real_run).writer_spec is writer_spec_of(noted)


def test_what_the_script_reads_while_the_agent_forgets_a_run_is_of_the_run_or_of_none() -> None:
    """At a take-back: the run of an earlier epoch is out of date."""
    reads: dict[str, Callable[[ManagedQuery], object]] = {
        "status": lambda query: query.status,
        "lastProgress": lambda query: query.lastProgress,
        "recentProgress": lambda query: query.recentProgress,
        "processAllAvailable": lambda query: query.processAllAvailable(),
        "explain": lambda query: query.explain(),
    }

    class Forgotten(ManagedQuery):
        left = 1

        @property
        def real(self) -> Any:
            self.left -= 1
            return real_run() if self.left >= 0 else None

        @real.setter
        def real(self, run: Any) -> None:
            pass

    for name, read in reads.items():
        query = Forgotten(Told(), writer("/data/out"), real_run)
        query._begun.set()
        query.left = 1
        read(query)
        assert query.left == 0, name


# -- work on several at the same time ---------------------------------------------------------------------------------

QUERIES: list[Any] = [SimpleNamespace(label="orders"), SimpleNamespace(label="prices")]


def test_an_error_names_its_query_and_keeps_its_words() -> None:
    cause = ValueError("no such topic")

    def work(query: Any) -> None:
        if query.label == "prices":
            raise cause

    with pytest.raises(StreamError) as caught:
        side_by_side(work, QUERIES)
    assert caught.value.message == "The query prices failed: no such topic"
    assert "The driver's log has the whole stack trace." in caught.value.next_step
    assert caught.value.__cause__ is cause


def test_an_error_of_this_package_stays_as_it_is() -> None:
    mine = CheckpointError("Another stream owns it.", next_step="Choose another folder.")

    def work(query: Any) -> None:
        raise mine

    with pytest.raises(CheckpointError) as caught:
        side_by_side(work, QUERIES)
    assert caught.value is mine


def test_results_are_in_the_order_of_the_queries_and_may_be_errors_that_are_returned() -> None:
    missed = CheckpointError("It has not stopped.")
    assert side_by_side(lambda query: query.label, QUERIES) == ["orders", "prices"]
    assert side_by_side(lambda query: missed, QUERIES) == [missed, missed]


def test_where_one_has_failed_the_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would start behind a record that says that the start has failed."""
    started, both, ended = threading.Thread.start, threading.Barrier(2), list[str]()

    def work(query: Any) -> None:
        both.wait(60)
        if query.label == "orders":
            raise SystemExit
        ended.append(query.label)

    with pytest.raises(StreamError, match="The query orders failed: SystemExit"):
        side_by_side(work, QUERIES)
    assert ended == ["prices"]

    def first_only(thread: threading.Thread) -> None:
        if "prices" in thread.name:
            raise RuntimeError("can't start new thread")
        started(thread)

    monkeypatch.setattr(threading.Thread, "start", first_only)
    with pytest.raises(StreamError, match="The query prices failed: can't start new thread"):
        side_by_side(lambda query: ended.append(query.label), QUERIES)
    assert ended == ["prices", "orders"]
