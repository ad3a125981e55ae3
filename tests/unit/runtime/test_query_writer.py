"""One DataStreamWriter that starts several queries; pyspark's class over a stand-in for Spark's writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime import writer_spec as writer_specs
from airflow_stream_provider.runtime.writer_spec import WriterSpec, checkpoint_of, writer_of_query, writer_spec_of
from tests.support.writers import Properties, Session, copied_class


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """pyspark's class, as it is when the script runs; `begun` has how each query is started."""
    made = copied_class()
    monkeypatch.setattr(writer_specs, "DataStreamWriter", made)
    writer_specs.install(lambda: None)
    made.begun = []
    for method in ("start", "toTable"):
        original = getattr(made, method)

        def note(self: Any, *args: Any, method: str = method, original: Any = original, **kwargs: Any) -> Any:
            writer, start = writer_of_query(self, method, original, args, kwargs)
            made.begun.append((writer, start))
            return writer

        setattr(made, method, note)
    return made


def test_queries_of_one_writer_start_later_as_each_was_when_the_script_started_it(patched: Any) -> None:
    session = Session()
    writer = patched(session).format("kafka")
    writer.queryName("a").option("topic", "a").option("checkpointLocation", "/c/a").start()
    writer.queryName("b").option("topic", "b").option("checkpointLocation", "/c/b").start(partitions=1)
    writer.option("topic", "c").start("/out", queryName="c", checkpointLocation="/c/c", outputMode="update")
    writer.format("json")
    for _ in range(2):  # after a hand-over, once more
        session.started.clear()
        for _, start in patched.begun:
            start()
        a = {"format": "kafka", "queryName": "a", "topic": "a", "checkpointLocation": "/c/a"}
        b = {**a, "queryName": "b", "topic": "b", "checkpointLocation": "/c/b", "partitions": "1"}
        c = {**b, "queryName": "c", "topic": "c", "checkpointLocation": "/c/c", "outputMode": "update", "path": "/out"}
        assert session.started == [a, b, c]
    specs = [writer_spec_of(query) for query, _ in patched.begun]
    assert [(spec.name, spec.sink, spec.sink_target, spec.output_mode) for spec in specs] == [
        ("a", "kafka", "a", "append"),
        ("b", "kafka", "b", "append"),
        ("c", "kafka", "/out", "update"),
    ]


def test_a_function_and_a_trigger_are_repeated_too(patched: Any) -> None:
    session = Session()
    called: list[int] = []
    writer = patched(session).foreachBatch(lambda batch, number: called.append(number)).trigger(once=True)
    writer.partitionBy("day").option("checkpointLocation", "/c/a").start()
    writer.option("checkpointLocation", "/c/b").start()
    for query, start in patched.begun:
        start()
        session.started[-1]["foreachBatch"](None, 7)
        assert writer_spec_of(query).trigger == {"once": True}
    assert called == [7, 7]
    assert [told["partitionBy"] for told in session.started] == [["day"], ["day"]]
    assert session.started[0]["trigger"] is session.started[1]["trigger"] is not None


def test_a_writer_that_is_started_again_for_the_next_round_is_the_same(patched: Any) -> None:
    session = Session()
    writer = patched(session).format("json").option("checkpointLocation", "/c/a")
    for _ in range(3):
        writer.start("/out")
        patched.begun[-1][1]()
    assert session.started == [{"format": "json", "checkpointLocation": "/c/a", "path": "/out"}] * 3


def test_a_query_starts_with_the_local_properties_of_the_scripts_thread_such_as_its_pool(patched: Any) -> None:
    session = Session()
    pools = []
    for name in ("a", "b"):
        session.context.local["spark.scheduler.pool"] = name
        patched(session).option("checkpointLocation", f"/c/{name}").start("/out")
    for _ in range(2):  # after a hand-over, once more
        session.context.local = Properties()
        for _, start in patched.begun:
            start()
            pools.append(session.context.local["spark.scheduler.pool"])
            session.context.local["spark.scheduler.pool"] = "of another query"
    assert pools == ["a", "b", "a", "b"]


def test_a_query_of_a_script_that_names_no_pool_has_its_own(patched: Any) -> None:
    session = Session()
    patched(session).option("checkpointLocation", "/c/a").start("/out")
    patched(session).option("checkpointLocation", "/c/b").start("/out", queryName="b")
    pools = []
    for _, start in patched.begun:
        start()
        pools.append(session.context.local["spark.scheduler.pool"])
    assert pools == ["/c/a", "b"]


def test_a_checkpoint_that_the_session_names_is_that_of_the_scripts_start(patched: Any) -> None:
    session = Session()
    session.settings["spark.sql.streaming.checkpointLocation"] = "/c"
    patched(session).start("/out", queryName="a")
    session.settings["spark.sql.streaming.checkpointLocation"] = "/elsewhere"
    patched.begun[0][1]()
    assert session.started[0]["checkpointLocation"] == checkpoint_of(patched.begun[0][0]) == "/c/a"


def test_a_start_that_pyspark_would_refuse_is_refused_at_once(patched: Any) -> None:
    with pytest.raises(TypeError, match="tableName"):
        patched(Session()).toTable()
    assert patched.begun == []


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "spec"),
    [
        ("start", (), {}, WriterSpec(format="kafka", name="before")),
        ("start", ("/out", "JSON", "Update", None, "q"), {}, WriterSpec("update", "JSON", "q", target="/out")),
        ("start", (), {"path": "/out", "queryName": "q"}, WriterSpec(format="kafka", name="q", target="/out")),
        (
            "toTable",
            ("t",),
            {"outputMode": "complete"},
            WriterSpec("complete", "kafka", "before", target="t", to_table=True),
        ),
        (
            "start",
            (),
            {"checkpointLocation": "/c", "maxFilesPerTrigger": 5, "none": None},
            WriterSpec(format="kafka", name="before", options={"checkpointlocation": "/c", "maxfilespertrigger": "5"}),
        ),
    ],
)
def test_what_start_is_given_overrides_what_was_said_before(
    method: str, args: tuple[Any, ...], kwargs: dict[str, Any], spec: WriterSpec, patched: Any
) -> None:
    writer = patched(Session()).format("kafka").queryName("before")
    assert writer_spec_of(getattr(writer, method)(*args, **kwargs)) == spec


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_query_that_spark_runs_on_another_checkpoint_is_stopped(
    elsewhere: bool, patched: Any, tmp_path: Path
) -> None:
    for name in ("mine", "elsewhere"):
        (tmp_path / name).mkdir()
    session = Session()
    query = patched(session).queryName("q").option("checkpointLocation", f"{tmp_path}/mine/").start("/out")
    if elsewhere:
        query._jwrite.option("checkpointLocation", f"{tmp_path}/elsewhere")
        with pytest.raises(SpecError, match=r"Spark started the query q on the checkpoint file:.*/elsewhere, and not"):
            patched.begun[0][1]()
    else:
        patched.begun[0][1]()
    assert [run.did for run in session.runs] == [["stop"] if elsewhere else []]
