"""Notes the calls of a script on its DataStreamWriters, so that a rehearsal can run the query with another sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.lifecycle.errors import SpecError

_NOTE = "_airflow_stream_writer_spec"


@dataclass
class WriterSpec:
    """The calls on one DataStreamWriter that decide where and how it writes."""

    output_mode: str = "append"
    format: str = ""
    name: str = ""
    trigger: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    foreach_batch: Callable[[DataFrame, int], None] | None = None
    foreach: bool = False
    target: str = ""
    to_table: bool = False

    @property
    def sink(self) -> str:
        """The kind of sink: the format's name, or the function's kind."""
        if self.foreach_batch is not None:
            return "foreachBatch"
        return "foreach" if self.foreach else self.format.lower() or "parquet"

    @property
    def sink_target(self) -> str:
        """Topic, path or table that the sink writes to; empty when the data or user code decide."""
        return self.target or self.options.get("topic", "") or self.options.get("path", "")


def writer_spec_of(writer: DataStreamWriter) -> WriterSpec:
    """Return what was noted for this writer; empty when nothing was called on it."""
    note: WriterSpec = writer.__dict__.setdefault(_NOTE, WriterSpec())
    return note


def checkpoint_of(writer: DataStreamWriter) -> str:
    """Return where this query keeps its checkpoint, as Spark would choose it (StreamingQueryManager).

    :raises SpecError: the script names none; Spark would then use a temporary folder and delete it.
    """
    writer_spec = writer_spec_of(writer)
    location = writer_spec.options.get("checkpointlocation")
    if location:
        return location
    root = writer._spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    if root and writer_spec.name:
        return f"{root.rstrip('/')}/{writer_spec.name}"
    raise SpecError(
        f"The query {writer_spec.name or '(unnamed)'} has no checkpoint location.",
        next_step="Set option('checkpointLocation', ...) on its writer to a folder that is kept. "
        "(spark.sql.streaming.checkpointLocation counts only for a query with a queryName.)",
    )


def install(guard: Callable[[], None]) -> None:
    """Patch DataStreamWriter so that its calls are noted; `guard` runs before and after each foreachBatch call.

    It patches the class, so that a script that imported it earlier or under another name is covered too.
    """
    # The names of the parameters are pyspark's: a script may pass them by name.
    _note_arguments("outputMode", lambda spec, /, outputMode: setattr(spec, "output_mode", outputMode.lower()))
    _note_arguments("format", lambda spec, /, source: setattr(spec, "format", source))
    _note_arguments("queryName", lambda spec, /, queryName: setattr(spec, "name", queryName))
    _note_arguments("option", lambda spec, /, key, value: _note_options(spec, {key: value}))
    _note_arguments("options", lambda spec, /, **options: _note_options(spec, options))
    _note_arguments("trigger", lambda spec, /, **trigger: setattr(spec, "trigger", _given(trigger)))
    _note_arguments("foreach", lambda spec, /, f: setattr(spec, "foreach", True))
    _guard_foreach_batch(guard)


def _note_options(writer_spec: WriterSpec, options: dict[str, Any]) -> None:
    # Spark's options ignore case.
    writer_spec.options.update({key.lower(): str(value) for key, value in options.items() if value is not None})


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if value is not None}


def _note_arguments(method: str, note: Callable[..., None]) -> None:
    original = getattr(DataStreamWriter, method)

    def noting(self: DataStreamWriter, *args: Any, **kwargs: Any) -> DataStreamWriter:
        result: DataStreamWriter = original(self, *args, **kwargs)
        note(writer_spec_of(self), *args, **kwargs)
        return result

    noting.__doc__ = original.__doc__
    setattr(DataStreamWriter, method, noting)


def _guard_foreach_batch(guard: Callable[[], None]) -> None:
    original = DataStreamWriter.foreachBatch

    def foreach_batch(self: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        def guarded(batch: DataFrame, batch_id: int) -> None:
            # The wrapper may only raise: if it returned without calling the function, Spark would commit a batch that
            # was never written.
            guard()
            func(batch, batch_id)
            guard()

        writer_spec_of(self).foreach_batch = func
        return original(self, guarded)

    DataStreamWriter.foreachBatch = foreach_batch  # type: ignore[method-assign]


def rehearsal_writer(writer: DataStreamWriter, checkpoint: str) -> DataStreamWriter:
    """Return a writer of the same plan and output mode on another checkpoint; the caller sets its sink."""
    copy = writer._df.writeStream.outputMode(writer_spec_of(writer).output_mode)
    return copy.option("checkpointLocation", checkpoint)


def note_start(writer: DataStreamWriter, method: str, target: str | None) -> None:
    """Note where `start` or `toTable` was told to write, on a copy of a writer and for that copy only."""
    writer_spec = writer_spec_of(writer)
    writer.__dict__[_NOTE] = replace(
        writer_spec, options=dict(writer_spec.options), target=str(target or ""), to_table=method == "toTable"
    )


def forget(writer: DataStreamWriter) -> None:
    """Forget what was noted for this writer."""
    writer.__dict__.pop(_NOTE, None)
