"""What a script asked of a DataStreamWriter, noted so that the same query can be rehearsed with another sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.lifecycle.errors import SpecError

_NOTE = "_airflow_stream_recipe"


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

    @property
    def sink(self) -> str:
        """The kind of sink: the format's name, or the function's kind."""
        if self.foreach_batch is not None:
            return "foreachBatch"
        return "foreach" if self.foreach else self.format or "parquet"

    @property
    def sink_target(self) -> str:
        """Where the sink writes: topic, path or table; empty when it is in the data or in user code."""
        return self.target or self.options.get("topic", "") or self.options.get("path", "")


def writer_spec_of(writer: DataStreamWriter) -> WriterSpec:
    """Return the note that belongs to this writer."""
    note: WriterSpec = writer.__dict__.setdefault(_NOTE, WriterSpec())
    return note


def checkpoint_of(writer: DataStreamWriter) -> str:
    """Return where this query keeps its checkpoint, as Spark would choose it (StreamingQueryManager).

    :raises SpecError: the script names none, so that Spark would take a temporary folder and forget it.
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
        next_step="Set option('checkpointLocation', ...) on its writer, to a lasting place.",
    )


def install(guard: Callable[[], None]) -> None:
    """Make every DataStreamWriter note what is asked of it; `guard` runs around each call of a user's foreachBatch.

    Patches the class, so a script that imported it before or under another name is covered too.
    """
    _note_arguments("outputMode", lambda r, mode: setattr(r, "output_mode", mode.lower()))
    _note_arguments("format", lambda r, source: setattr(r, "format", source.lower()))
    _note_arguments("queryName", lambda r, name: setattr(r, "name", name))
    _note_arguments("option", lambda r, key, value: _note_options(r, {key: value}))
    _note_arguments("options", lambda r, **options: _note_options(r, options))
    _note_arguments("trigger", lambda r, **trigger: setattr(r, "trigger", _given(trigger)))
    _note_arguments("foreach", lambda r, f: setattr(r, "foreach", True))
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
            # Wrapped only to refuse: an exception keeps the batch from being committed (facts: never return
            # without having done the work).
            guard()
            func(batch, batch_id)
            guard()

        writer_spec_of(self).foreach_batch = func
        return original(self, guarded)

    DataStreamWriter.foreachBatch = foreach_batch  # type: ignore[method-assign]


def rehearsal_writer(writer: DataStreamWriter, checkpoint: str) -> DataStreamWriter:
    """Return a new writer of the same plan in the same output mode, on another checkpoint, its sink still to be set."""
    copy = writer._df.writeStream.outputMode(writer_spec_of(writer).output_mode)
    return copy.option("checkpointLocation", checkpoint)


def note_start(writer: DataStreamWriter, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Apply what `start` or `toTable` was given to the recipe now: a standby needs it long before Spark's start."""
    names = ("path" if method == "start" else "tableName", "format", "outputMode", "partitionBy", "queryName")
    given = {**dict(zip(names, args)), **kwargs}
    writer_spec = writer_spec_of(writer)
    writer_spec.target = str(given.pop(names[0], None) or writer_spec.target)
    if given.get("outputMode"):
        writer_spec.output_mode = str(given["outputMode"]).lower()
    if given.get("format"):
        writer_spec.format = str(given["format"]).lower()
    if given.get("queryName"):
        writer_spec.name = str(given["queryName"])
    options = {key.lower(): str(value) for key, value in given.items() if key not in names and value is not None}
    writer_spec.options.update(options)
