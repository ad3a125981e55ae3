"""Which queries the gate knows, and when they start. pyspark's classes are patched in a driver's process only."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import accumulators
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.checkpoint import real_form
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.runtime import gate as gates
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from devstack.drivers import wait_for
from tests.support.real_run import real_run, writer


def build(gate: Gate, name: str, checkpoint: str = "") -> ManagedQuery:
    """What the script's `start()` does."""
    return gate._register(writer(checkpoint or f"/data/{name}", name), real_run)


class Manager:
    """What the gate patches of pyspark's StreamingQueryManager."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:
        self.listeners.remove(listener)


def manager_of(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`spark.streams` of a script behind this gate."""
    patched: Any = type("StreamingQueryManager", (Manager,), {})
    monkeypatch.setattr(gates, "StreamingQueryManager", patched)
    gate._patch_manager()
    return patched()


def test_a_query_is_found_by_its_id_before_and_after_it_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    streams = manager_of(gate, monkeypatch)
    query, other = build(gate, "a"), build(gate, "b")
    seen = query.id
    assert (streams.get(seen), streams.get(other.id), streams.get("another")) == (query, other, None)
    query.start_real()
    assert streams.get(seen) is streams.get(query.id) is query
    query.stop()
    assert streams.get(seen) is None, "as in Spark, once it has ended"


def test_a_scripts_listener_hears_the_end_of_a_run_unless_the_runtime_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, heard = Gate(), []
    streams = manager_of(gate, monkeypatch)
    listener: Any = SimpleNamespace(onQueryTerminated=lambda event: heard.append(event.runId))
    streams.addListener(listener)
    runs = [real_run() for _ in range(3)]
    for number, run in enumerate(runs):
        run.runId = f"run-{number}"
    gate.hide_end(runs[0])
    gate.hide_end(runs[1])
    gate.show_end(runs[1])
    for run in runs:
        streams.listeners[0].onQueryTerminated(SimpleNamespace(id="q", runId=run.runId))
    assert heard == ["run-1", "run-2"]
    streams.removeListener(listener)
    assert streams.listeners == []


def test_a_query_that_is_built_does_not_start() -> None:
    gate = Gate()
    query = build(gate, "a")
    assert (gate.queries, gate.live(), query.real) == ([query], [query], None)


def test_the_script_is_ready_once_it_waits_for_a_query_that_it_has_built() -> None:
    empty, gate = Gate(), Gate()
    empty.script_waits()
    query = build(gate, "a")
    assert query.awaitTermination(0) is False
    before = gate.ready
    gate.script_waits()
    assert (empty.ready, before, gate.ready) == (False, False, True)


def test_the_script_is_not_ready_before_all_of_its_threads_wait() -> None:
    gate = Gate()
    gate.script_begins()
    go_on = threading.Event()
    other = threading.Thread(target=lambda: (go_on.wait(30), build(gate, "b").awaitTermination()), daemon=True)
    other.start()
    build(gate, "a")
    gate.script_waits()
    assert other in gate.script_threads()
    assert not gate.ready
    go_on.set()
    wait_for("the other thread to wait", lambda: gate.ready)
    assert [query.label for query in gate.all_known()] == ["a", "b"]
    for query in gate.queries:
        query.end()
    other.join(30)
    assert gate.script_threads() <= {threading.current_thread()}


@pytest.mark.parametrize(("name", "is_the_scripts"), [("stream-orders", True), ("airflow-stream-agent", False)])
def test_a_thread_is_the_scripts_unless_it_has_a_name_of_the_runtimes_own(name: str, is_the_scripts: bool) -> None:
    gate = Gate()
    gate.script_begins()
    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=[30], name=name, daemon=True)
    thread.start()
    assert (thread in gate.script_threads()) is is_the_scripts
    over.set()


def test_sparks_own_server_in_a_thread_is_not_waited_for() -> None:
    """Each SparkContext has one, so that no script would be ready before it had been quiet for 15 s."""
    gate = Gate()
    gate.script_begins()
    server = accumulators._start_update_server("a token")
    try:
        build(gate, "a")
        assert not gate.ready
        gate.script_waits()
        assert len(gate.script_threads()) == 2
        assert gate.ready
    finally:
        server.shutdown()
        server.server_close()


def test_a_thread_that_may_start_a_query_is_waited_for_though_pyspark_has_the_method() -> None:
    writer = DataStreamWriter.__new__(DataStreamWriter)
    assert not gates._serves_spark(threading.Thread(target=writer.start))


def test_a_script_that_goes_quiet_is_ready_too(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = Gate()
    build(quiet, "a")
    monkeypatch.setattr(gates, "QUIET_SECONDS", 0.0)
    assert quiet.ready


@pytest.mark.parametrize("checkpoint", ["/data/a", "/data/a/", "file:/data/a"])
def test_two_queries_on_one_checkpoint_are_refused(checkpoint: str) -> None:
    gate = Gate()
    build(gate, "a")
    with pytest.raises(SpecError, match="The queries a and b have the same checkpoint"):
        build(gate, "b", checkpoint)
    assert [query.label for query in gate.queries] == ["a"]


@pytest.mark.parametrize("below", ["", "/query"], ids=["the last part", "higher up"])
def test_two_queries_on_one_checkpoint_are_refused_also_by_a_symbolic_link(tmp_path: Path, below: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    gate = Gate()
    build(gate, "a", f"{tmp_path}/real{below}")
    with pytest.raises(SpecError, match="The queries a and b have the same checkpoint"):
        build(gate, "b", f"file:{tmp_path}/link{below}")


def test_two_queries_of_one_name_are_refused_in_one_session_before_this_driver_holds() -> None:
    """Spark refuses the second, which showed only after the hand-over: the new driver failed while it held."""
    gate = Gate()
    one, another = writer("/data/0")._spark, writer("/data/0")._spark

    def start(number: int, session: Any = one, name: str = "orders") -> ManagedQuery:
        made = writer(f"/data/{number}", name)
        made._spark = session
        return gate._register(made, real_run)

    first = start(1)
    start(2, another)
    start(3, name="Orders")
    start(4, name="")
    start(5, name="")
    with pytest.raises(SpecError, match="starts two queries of the name orders in one SparkSession"):
        start(6)
    first.end()
    start(7)
    gate.hold(lambda query: None)
    start(8)  # at once: Spark says so itself, to the script
    assert [query.checkpoint[-1] for query in gate.queries] == ["1", "2", "3", "4", "5", "7", "8"]


def test_a_script_of_many_queries_asks_the_file_system_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each new query once about each that there is, and not about each pair of them."""
    asked: list[str] = []

    def noting(location: str) -> str:
        asked.append(location)
        return real_form(location)

    monkeypatch.setattr(gates, "real_form", noting)
    gate = Gate()
    for number in range(20):
        build(gate, f"q{number}")
    assert len(asked) <= 20 * 21 / 2


def test_a_query_that_comes_after_all_are_known_is_refused_on_a_standby_only() -> None:
    gate = Gate()
    refused: list[StreamError] = []
    gate._refuse = refused.append
    build(gate, "a").awaitTermination(0)
    assert [query.label for query in gate.all_known()] == ["a"]
    with pytest.raises(SpecError, match="starts the query b after it seemed to have started all"):
        build(gate, "b")
    assert [type(error) for error in refused] == [SpecError]
    started: list[ManagedQuery] = []
    gate.hold(started.append)
    late = build(gate, "c")
    assert started == [late]
    gate.let_go()
    build(gate, "d")
    assert started == [late]
    assert [query.label for query in gate.queries] == ["a", "c", "d"]


def test_a_late_query_of_the_running_release_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: a script that starts one after a minute could not be upgraded."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gate, late = Gate(), {"/data/b": "b", "/data/c": "c"}
    build(gate, "a")
    now += gates.QUIET_SECONDS
    assert (gate.ready, gate.to_come(late), gate.to_come({})) == (True, ["b", "c"], [])
    build(gate, "b")
    assert [query.late for query in gate.queries] == [False, True]
    now += gates.LATE_SECONDS - 1
    assert gate.to_come(late) == ["c"]
    now += 1
    assert gate.to_come(late) == [], "it may never come while this driver stands by"


def test_no_late_query_is_waited_for_where_the_whole_script_waits() -> None:
    gate = Gate()
    build(gate, "a")
    gate.script_waits()
    assert (gate.ready, gate.to_come({"/data/b": "b"})) == (True, [])


def test_a_query_that_others_start_late_may_come_after_all_are_known() -> None:
    gate = Gate()
    build(gate, "", "/x/checkpoint")
    gate.all_known()
    gate.may_come_late({"/data/b", "/y/checkpoint"})
    build(gate, "b")
    build(gate, "", "/y/checkpoint")
    # What stands in a record already stays.
    assert [query.label for query in gate.queries] == ["checkpoint", "b", "y/checkpoint"]
    with pytest.raises(SpecError, match="starts the query c after it seemed to have started all"):
        build(gate, "c")


def test_the_holder_starts_what_is_there_and_what_has_not_ended() -> None:
    gate = Gate()
    first, second = build(gate, "a"), build(gate, "b")
    first.end()
    assert gate.hold(lambda query: None) == [second]


def test_a_late_query_that_cannot_start_is_not_kept() -> None:
    gate = Gate()
    build(gate, "a")

    def refuse(query: ManagedQuery) -> None:
        raise SpecError(f"No {query.label}.")

    gate.hold(refuse)
    with pytest.raises(SpecError, match=r"No b\."):
        build(gate, "b")
    assert [query.label for query in gate.queries] == ["a"]


def test_letting_go_waits_for_a_start_that_is_under_way() -> None:
    gate = Gate()
    starting, go_on = threading.Event(), threading.Event()

    def slowly(query: ManagedQuery) -> None:
        starting.set()
        assert go_on.wait(30)

    gate.hold(slowly)
    script = threading.Thread(target=build, args=(gate, "a"), daemon=True)
    script.start()
    assert starting.wait(30)
    letting_go = threading.Thread(target=gate.let_go, daemon=True)
    letting_go.start()
    assert letting_go.is_alive()
    go_on.set()
    letting_go.join(30)
    assert not letting_go.is_alive()
    assert [query.label for query in gate.queries] == ["a"]


def test_waiting_for_all_ends_with_the_last_and_raises_what_failed() -> None:
    gate = Gate()
    first, second = build(gate, "a"), build(gate, "b")
    first.end()
    second.end(ValueError("it broke"))
    with pytest.raises(ValueError, match="it broke"):
        gate.await_all()


def test_waiting_for_any_ends_with_the_first() -> None:
    gate = Gate()
    first, _ = build(gate, "a"), build(gate, "b")
    assert gate._await_any(0) is False
    gate.hold(lambda query: None)
    threading.Thread(target=first.end, daemon=True).start()
    assert gate._await_any(30) is True
    assert gate._await_any(None) is None
    gate._terminated = None  # what resetTerminated() does
    assert gate._await_any(0) is False


def test_a_query_that_is_over_can_be_started_again() -> None:
    gate = Gate()
    first = build(gate, "a")
    gate.all_known()
    first.end()
    again = build(gate, "a")
    assert (gate.queries, again.real) == ([again], None)
    again.end()
    started: list[ManagedQuery] = []
    gate.hold(started.append)
    third = build(gate, "a")
    assert (gate.queries, started) == ([third], [third])


def test_a_timed_wait_counts_from_the_moment_when_this_driver_holds() -> None:
    gate = Gate()
    build(gate, "a")
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(gate._await_any(1)), daemon=True)
    waiting.start()
    waiting.join(2)
    assert waiting.is_alive()
    gate.hold(lambda query: None)
    waiting.join(30)
    assert found == [False]


def test_waiting_for_any_raises_what_failed() -> None:
    gate = Gate()
    build(gate, "a").end(ValueError("it broke"))
    with pytest.raises(ValueError, match="it broke"):
        gate._await_any(None)


def test_no_two_queries_have_one_label() -> None:
    gate = Gate()
    for checkpoint in ("/a/checkpoint", "/b/checkpoint", "/c/checkpoint"):
        build(gate, "", checkpoint)
    assert [query.label for query in gate.queries] == ["a/checkpoint", "b/checkpoint", "c/checkpoint"]


def test_a_late_query_takes_no_label_that_stands_in_a_record() -> None:
    gate = Gate()
    build(gate, "", "/a/checkpoint")
    gate.hold(lambda query: None)
    build(gate, "", "/b/checkpoint")
    assert [query.label for query in gate.queries] == ["checkpoint", "b/checkpoint"]
