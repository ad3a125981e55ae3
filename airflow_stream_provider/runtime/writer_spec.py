"""Notes the calls of a script on its DataStreamWriters, and gives each query a writer of its own.

By the notes a rehearsal can run the query with another sink. A script may start several queries with one
DataStreamWriter, and Spark starts a query at once, with what its writer says at that moment. Here a query starts later,
and again after a hand-over, so nothing may change its writer meanwhile. Calls of a script on a writer that has started
a query go to a new writer of Spark's, on which the script's earlier calls are repeated first.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.checkpoint import locate, normal_form
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.lifecycle.errors import CheckpointError, SpecError

_NOTE = "_airflow_stream_writer_spec"
# The calls on a writer that decide what it writes, in their order.
_CALLS = "_airflow_stream_calls"
# Set on a writer that has started a query.
_STARTED = "_airflow_stream_started"
_STARTS = ("start", "toTable")
_POOL = "spark.scheduler.pool"


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


def _note_options(writer_spec: WriterSpec, options: dict[str, Any]) -> None:
    # Spark's options ignore case.
    writer_spec.options.update({key.lower(): str(value) for key, value in options.items() if value is not None})


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if value is not None}


# By pyspark's method. The names of the parameters are pyspark's: a script may pass them by name.
_NOTES: Mapping[str, Callable[..., None]] = {
    "outputMode": lambda spec, /, outputMode: setattr(spec, "output_mode", outputMode.lower()),
    "format": lambda spec, /, source: setattr(spec, "format", source),
    "queryName": lambda spec, /, queryName: setattr(spec, "name", queryName),
    "option": lambda spec, /, key, value: _note_options(spec, {key: value}),
    "options": lambda spec, /, **options: _note_options(spec, options),
    "trigger": lambda spec, /, **trigger: setattr(spec, "trigger", _given(trigger)),
    "foreach": lambda spec, /, f: setattr(spec, "foreach", True),
    "foreachBatch": lambda spec, /, func: setattr(spec, "foreach_batch", func),
}


def install(guard: Callable[[], None]) -> None:
    """Patch DataStreamWriter so that its calls are noted; `guard` runs before and after each foreachBatch call.

    It patches the class, so that a script that imported it earlier or under another name is covered too.
    """
    for name, method in list(vars(DataStreamWriter).items()):
        if inspect.isfunction(method) and not name.startswith("_") and name not in _STARTS:
            _note_calls(name, _guarded(method, guard) if name == "foreachBatch" else method)


def _guarded(foreach_batch: Callable[..., DataStreamWriter], guard: Callable[[], None]) -> Any:
    def guarding(self: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        def guarded(batch: DataFrame, batch_id: int) -> None:
            # The wrapper may only raise: if it returned without calling the function, Spark would commit a batch that
            # was never written.
            guard()
            func(batch, batch_id)
            guard()

        return foreach_batch(self, guarded)

    guarding.__doc__ = foreach_batch.__doc__
    return guarding


def _note_calls(name: str, method: Callable[..., DataStreamWriter]) -> None:
    def call(writer: DataStreamWriter, args: Any, kwargs: Any) -> DataStreamWriter:
        result = method(writer, *args, **kwargs)
        if name in _NOTES:
            _NOTES[name](writer_spec_of(writer), *args, **kwargs)
        return result

    def noting(self: DataStreamWriter, *args: Any, **kwargs: Any) -> DataStreamWriter:
        if self.__dict__.pop(_STARTED, False):
            _renew(self)
        result = call(self, args, kwargs)
        if args or kwargs:
            self.__dict__.setdefault(_CALLS, []).append((call, args, kwargs))
        return result

    noting.__doc__ = method.__doc__
    setattr(DataStreamWriter, name, noting)


def _renew(writer: DataStreamWriter) -> None:
    """Give the script's writer a new writer of Spark's; the query keeps the former."""
    writer._jwrite = writer._df._jdf.writeStream()
    writer.__dict__.pop(_NOTE, None)
    for call, args, kwargs in writer.__dict__.get(_CALLS, []):
        call(writer, args, kwargs)


def rehearsal_writer(writer: DataStreamWriter, checkpoint: str) -> DataStreamWriter:
    """Return a writer of the same plan and output mode on another checkpoint; the caller sets its sink."""
    copy = writer._df.writeStream.outputMode(writer_spec_of(writer).output_mode)
    return copy.option("checkpointLocation", checkpoint)


def writer_of_query(
    writer: DataStreamWriter, method: str, start: Callable[..., StreamingQuery], args: Any, kwargs: Any
) -> tuple[DataStreamWriter, Callable[[], StreamingQuery]]:
    """Return the writer of a query that a script starts now, and how to start it with Spark at any later time.

    :param method: `start` or `toTable`.
    :param start: pyspark's own method of that name.
    :param args: what the script gave it; as in pyspark, all but the path or the table stays on the script's writer.
    :raises TypeError: pyspark's method takes no such arguments.
    """
    given = inspect.signature(start).bind(writer, *args, **kwargs).arguments
    given.pop("self")
    target = given.pop("path" if method == "start" else "tableName", None)
    writer.options(**given.pop("options", {}))
    for name, value in given.items():
        if value is not None:
            getattr(writer, name)(value)

    own = copy.copy(writer)
    own.__dict__[_CALLS] = []
    writer.__dict__[_STARTED] = True
    spec = writer_spec_of(own)
    own.__dict__[_NOTE] = replace(
        spec, options=dict(spec.options), target=str(target or ""), to_table=method == "toTable"
    )
    with contextlib.suppress(SpecError):  # raised where the query is registered
        # The session's default folder may be another one when the query starts.
        own.option("checkpointLocation", checkpoint_of(own))
    # Spark's thread of a query inherits those of the thread that starts it, such as the pool of a fair scheduler.
    context = own._spark._jsparkSession.sparkContext()
    properties = context.getLocalProperties().clone()
    if properties.get(_POOL) is None:  # a pool of its own, which counts where spark.scheduler.mode is FAIR
        properties[_POOL] = spec.name or writer_spec_of(own).options.get("checkpointlocation", "")

    def begin() -> StreamingQuery:
        context.setLocalProperties(properties.clone())
        return _checked(start(own, target), own)

    return own, begin


def _checked(run: StreamingQuery, writer: DataStreamWriter) -> StreamingQuery:
    """Check that Spark runs the query where it was rehearsed.

    :raises SpecError: it does not; the run is stopped.
    """
    wanted, found = checkpoint_of(writer), str(run._jsq.streamingQuery().resolvedCheckpointRoot())
    try:
        places = locate(wanted), locate(found)
        # On other storage there are no links to folders.
        remote = any(isinstance(place, RemotePath) for place in places)
        same = normal_form(wanted) == normal_form(found) if remote else os.path.samefile(*map(str, places))
    except CheckpointError:
        same = False
    except OSError:
        return run  # what cannot be looked at proves nothing
    if not same:
        run.stop()
        raise SpecError(
            f"Spark started the query {writer_spec_of(writer).name or '(unnamed)'} on the checkpoint {found}, and not "
            f"on {wanted}.",
            next_step="Set the checkpoint with option('checkpointLocation', ...), and not through internals of Spark.",
        )
    return run
