"""What is known of a writer; pyspark's writers are patched in a driver's process only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime import writer_spec as writer_specs
from airflow_stream_provider.runtime.writer_spec import WriterSpec, checkpoint_of, writer_spec_of
from tests.support.writers import Session, copied_class


def writer(root: str | None = None, **spec: Any) -> Any:
    """A writer of a session whose conf has this checkpoint root."""
    conf = SimpleNamespace(get=lambda key, default: root or default)
    made: Any = SimpleNamespace(_spark=SimpleNamespace(conf=conf))
    for name, value in spec.items():
        setattr(writer_spec_of(made), name, value)
    return made


@pytest.mark.parametrize(
    ("spec", "sink", "target"),
    [
        (WriterSpec(), "parquet", ""),
        (WriterSpec(format="kafka", options={"topic": "out"}), "kafka", "out"),
        (WriterSpec(format="json", options={"path": "/out"}), "json", "/out"),
        (WriterSpec(format="json", options={"path": "/option"}, target="/start"), "json", "/start"),
        (WriterSpec(foreach=True), "foreach", ""),
        (WriterSpec(foreach_batch=lambda batch, number: None, format="kafka"), "foreachBatch", ""),
    ],
)
def test_where_a_query_writes(spec: WriterSpec, sink: str, target: str) -> None:
    assert (spec.sink, spec.sink_target) == (sink, target)


@pytest.mark.parametrize(
    ("made", "checkpoint"),
    [
        (writer(options={"checkpointlocation": "/own"}), "/own"),
        (writer("/root/", options={"checkpointlocation": "/own"}, name="q"), "/own"),
        (writer("/root/", name="q"), "/root/q"),
        (writer("/root", name="q"), "/root/q"),
    ],
)
def test_a_checkpoint_is_where_spark_would_put_it(made: Any, checkpoint: str) -> None:
    assert checkpoint_of(made) == checkpoint


@pytest.mark.parametrize(("made", "name"), [(writer(name="q"), "q"), (writer("/root"), r"\(unnamed\)")])
def test_a_checkpoint_that_spark_would_delete_is_refused(made: Any, name: str) -> None:
    with pytest.raises(SpecError, match=f"The query {name} has no checkpoint location"):
        checkpoint_of(made)


@pytest.mark.parametrize(
    ("method", "arguments", "spec"),
    [
        ("outputMode", {"outputMode": "Update"}, WriterSpec(output_mode="update")),
        ("format", {"source": "JSON"}, WriterSpec(format="JSON")),
        ("queryName", {"queryName": "q"}, WriterSpec(name="q")),
        ("option", {"key": "Topic", "value": "t"}, WriterSpec(options={"topic": "t"})),
        ("options", {"Topic": "t", "spec": "s"}, WriterSpec(options={"topic": "t", "spec": "s"})),
        ("trigger", {"availableNow": True}, WriterSpec(trigger={"availableNow": True})),
    ],
)
def test_pysparks_parameters_may_be_passed_by_name_and_by_position(
    method: str, arguments: dict[str, Any], spec: WriterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched = copied_class()
    monkeypatch.setattr(writer_specs, "DataStreamWriter", patched)
    writer_specs.install(lambda: None)
    by_name = patched(Session())
    assert getattr(by_name, method)(**arguments) is by_name
    assert writer_spec_of(by_name) == spec
    if method not in ("options", "trigger"):  # which have no parameters by position
        by_position = patched(Session())
        getattr(by_position, method)(*arguments.values())
        assert writer_spec_of(by_position) == spec
