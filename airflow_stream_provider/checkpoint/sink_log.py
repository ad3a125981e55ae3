"""Read which batches a sink remembers: it drops a batch of a number that it has, whatever the checkpoint says.

Spark's file sink keeps a log in `_spark_metadata`, with a file for each batch, and looks at numbers only. Delta keeps
the last number of each query, by the query's id, in its own log. Both are read as plain files; nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location, files_of, locate
from airflow_stream_provider.checkpoint.logs import damaged, text, unreadable

# Spark's FileStreamSink.metadataDir.
METADATA = "_spark_metadata"
# Commits of a Delta table that are looked at, the newest first. A query that writes is in one of the last few.
DELTA_COMMITS = 100


@dataclass(frozen=True)
class SinkLog:
    """The memory of a file sink.

    :param newest: the last batch in its log; None: there is no batch.
    :param missing: batches between its last compaction, or the first batch, and the newest one that are not there: the
        next compaction fails at them.
    """

    newest: int | None = None
    missing: tuple[int, ...] = ()


def read_sink_log(target: Location) -> SinkLog:
    """Return what the log in a file sink's folder has; a folder without one has no batch.

    :param target: the folder that the sink writes to.
    :raises CheckpointError: the folder cannot be used, or read.
    """
    folder = locate(target) / METADATA
    named = [name.partition(".") for name in _names(folder)]
    compacted = [int(number) for number, _, end in named if end == "compact" and number.isdecimal()]
    there = {int(number) for number, dot, _ in named if not dot and number.isdecimal()}.union(compacted)
    if not there:
        return SinkLog()
    newest = max(there)
    needed = range(max(compacted, default=0), newest)
    return SinkLog(newest, tuple(number for number in needed if number not in there))


def delta_batch(table: Location, query: str) -> int | None:
    """Return the last batch of a query that a Delta table knows; None where its last commits do not name the query.

    More than DELTA_COMMITS are not looked at, nor what Delta has written into a checkpoint file of its own.

    :param table: the table's folder.
    :param query: Spark's id of the query, by which Delta's streaming sink goes.
    :raises CheckpointError: the folder cannot be used, or read.
    """
    log = locate(table) / "_delta_log"
    commits = sorted((name for name in _names(log) if name.endswith(".json")), reverse=True)
    for name in commits[:DELTA_COMMITS]:
        found = [version for app, version in _transactions(log / name) if app == query]
        if found:
            return max(found)
    return None


def _transactions(commit: Place) -> Iterable[tuple[str, int]]:
    try:
        lines = text(commit).splitlines()
    except FileNotFoundError:
        return  # removed since the listing
    except OSError as error:
        raise unreadable(commit, error) from error
    for line in lines:
        if '"txn"' not in line:
            continue
        try:
            action = json.loads(line).get("txn")
            if action:
                yield str(action["appId"]), int(action["version"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(commit, "a line of it is no action of Delta") from error


def _names(folder: Place) -> list[str]:
    try:
        return files_of(folder).names(folder, large=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error
