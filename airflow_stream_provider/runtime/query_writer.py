"""Gives each query a writer of its own, because a script may start several queries with one DataStreamWriter.

Spark starts a query at once, with what its writer says at that moment. Here a query starts later, and again after a
hand-over, so nothing may change its writer meanwhile. Calls of a script on a writer that has started a query go to a
new writer of Spark's, on which the script's earlier calls are repeated first.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.checkpoint import locate, normal_form
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.lifecycle.errors import CheckpointError, SpecError
from airflow_stream_provider.runtime import writer_spec as writer_specs
from airflow_stream_provider.runtime.refused import check_file_manager
from airflow_stream_provider.runtime.writer_spec import checkpoint_of, writer_spec_of

# The calls on a writer that decide what it writes, in their order.
_CALLS = "_airflow_stream_calls"
# Set on a writer that has started a query.
_STARTED = "_airflow_stream_started"
_STARTS = ("start", "toTable")


def install() -> None:
    """Patch DataStreamWriter, after `writer_spec.install`, so that its calls can be repeated on a new writer."""
    for name, method in list(vars(DataStreamWriter).items()):
        if inspect.isfunction(method) and not name.startswith("_") and name not in _STARTS:
            _keep_calls(name, method)


def _keep_calls(name: str, method: Callable[..., DataStreamWriter]) -> None:
    def keeping(self: DataStreamWriter, *args: Any, **kwargs: Any) -> DataStreamWriter:
        if self.__dict__.pop(_STARTED, False):
            _renew(self)
        result = method(self, *args, **kwargs)
        if args or kwargs:
            self.__dict__.setdefault(_CALLS, []).append((method, args, kwargs))
        return result

    keeping.__doc__ = method.__doc__
    setattr(DataStreamWriter, name, keeping)


def _renew(writer: DataStreamWriter) -> None:
    """Give the script's writer a new writer of Spark's; the query keeps the former."""
    writer._jwrite = writer._df._jdf.writeStream()
    writer_specs.forget(writer)
    for method, args, kwargs in writer.__dict__.get(_CALLS, []):
        method(writer, *args, **kwargs)


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
    writer_specs.note_start(own, method, target)
    with contextlib.suppress(SpecError):  # raised where the query is registered
        # The session's default folder may be another one when the query starts.
        own.option("checkpointLocation", checkpoint_of(own))
    # Spark's thread of a query inherits those of the thread that starts it, such as the pool of a fair scheduler.
    context = own._spark._jsparkSession.sparkContext()
    properties = context.getLocalProperties().clone()

    def begin() -> StreamingQuery:
        check_file_manager(own)  # the session's conf may have changed since
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
