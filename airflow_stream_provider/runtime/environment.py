"""Reads the surroundings of this driver for its `standby` record; `lifecycle.environment` says what that may have."""

from __future__ import annotations

import logging
import platform
import re
import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pyspark.sql import DataFrame

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.control.bounded import call
from airflow_stream_provider.lifecycle.environment import allowed
from airflow_stream_provider.runtime.describe import calls_python, fingerprint, source_options
from airflow_stream_provider.runtime.managed_query import ManagedQuery

# Each part of it is given up after so long, as when a NameNode does not answer; no part takes a second else.
SECONDS = 10.0
MOST_PERSISTED = 100
_SOURCE = (
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "maxFilesPerTrigger"),
)
_SINK = ("retention",)
# The schemes of file systems that keep replicas, and say how many.
_REPLICATED = ("hdfs", "viewfs", "webhdfs", "swebhdfs")
_CACHED = re.compile(r"In-memory table (\S{1,100})")

log = logging.getLogger(__name__)
T = TypeVar("T")


def environment(queries: Sequence[ManagedQuery]) -> dict[str, Any]:
    """Return what the `standby` record says of this driver; {} without queries. A part that is not known is left out.

    It asks the JVM some hundred times, and the file system of each checkpoint once.
    """
    if not queries:
        return {}
    session: Any = queries[0].writer._df.sparkSession
    parts: Mapping[str, Callable[[], Any]] = {
        "spark": lambda: session.version,
        "java": lambda: session._jvm.java.lang.System.getProperty("java.version"),
        "python": platform.python_version,
        "conf": lambda: _conf(session),
        "cores": lambda: _cores(session),
        "heap_max": lambda: session._jvm.java.lang.Runtime.getRuntime().maxMemory(),
        "places": lambda: _places(session, queries),
        "nofile": lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "persisted": lambda: _persisted(session),
        "queries": lambda: {query.label: _query(query) for query in queries},
    }
    found = {name: _tried(name, read) for name, read in parts.items()}
    return {name: value for name, value in found.items() if value is not None}


def _tried(name: str, read: Callable[[], T]) -> T | None:
    try:
        return call(read, SECONDS, f"The driver's environment ({name})")
    except Exception:  # the stream runs as well without
        log.exception("The driver's environment (%s) is not known", name)
        return None


def _conf(session: Any) -> dict[str, str]:
    # Spark has put the settings of the application into it.
    pairs, found = session._jsparkSession.conf().getAll().iterator(), {}
    while pairs.hasNext():
        pair = pairs.next()
        found[pair._1()] = pair._2()
    return allowed(found)


def _cores(session: Any) -> int | None:
    context = session.sparkContext
    # Where it is set, it says nothing of cores.
    return None if context.getConf().contains("spark.default.parallelism") else int(context.defaultParallelism)


def _places(session: Any, queries: Sequence[ManagedQuery]) -> dict[str, dict[str, Any]]:
    found = {f"checkpoint of {query.label}": _place(session, query.checkpoint) for query in queries}
    dirs = session._jvm.org.apache.spark.util.Utils.getConfiguredLocalDirs(session._jsc.sc().conf())
    return {**found, **{f"local folder {number}": _place(session, path) for number, path in enumerate(dirs, 1)}}


def _place(session: Any, location: str) -> dict[str, Any]:
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return {"path": parts.path, "mount": mount_of(parts.path), "replication": None}
    replication = None
    if parts.scheme in _REPLICATED:
        path = session._jvm.org.apache.hadoop.fs.Path(location)
        system = path.getFileSystem(session._jsc.sc().hadoopConfiguration())
        replication = int(system.getDefaultReplication(path))
    return {"path": location, "mount": parts.scheme, "replication": replication}


def mount_of(path: str, table: str = "/proc/self/mountinfo") -> str:
    """Return the kind of file system on which a path is, such as ``ext4`` or ``nfs4``; empty: this system tells none.

    :param table: the mounts, as Linux writes them (proc(5)).
    """
    place, best, kind = Path(path).resolve(), -1, ""
    try:
        lines = Path(table).read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        words = line.split(" ")
        mounted = Path(words[4].encode().decode("unicode_escape"))
        # A later mount on the same folder hides the earlier one.
        if (mounted == place or mounted in place.parents) and len(mounted.parts) >= best:
            best, kind = len(mounted.parts), words[words.index("-") + 1]
    return kind


def _persisted(session: Any) -> list[dict[str, Any]]:
    found = []
    for kept in [*session._jsc.getPersistentRDDs().values()][:MOST_PERSISTED]:
        level, named = kept.getStorageLevel(), _CACHED.match(str(kept.rdd().name()))
        # Spark names a frame's cache by its plan, which quotes values.
        found.append({"name": named[1] if named else "", "level": level.description(), "replicas": level.replication()})
    return found


def _query(query: ManagedQuery) -> dict[str, Any]:
    frame, options = query.writer._df, query.writer_spec.options
    begun = checkpoints.boundary(query.checkpoint).offsets is not None
    found = checkpoints.read(query.checkpoint) if begun else None
    operators, offsets = (found.operators, found.planned or found.committed) if found else ((), None)
    # Each partition of a join of streams has four.
    stores = [each.partitions * (4 if "join" in each.name.lower() else 1) for each in operators]
    sink = {name: options[name] for name in _SINK if name in options}
    return {
        "options": {**source_options(frame, _SOURCE), **sink},
        "kafka_partitions": sum(map(len, offsets.values())) if offsets else None,
        "python_functions": query.writer_spec.foreach or calls_python(frame),
        # Before its first batch only the plan tells whether it has state, and not how much.
        "state_partitions": max((each.partitions for each in operators), default=_none_yet(frame)),
        "stores": sum(stores) if stores else _none_yet(frame),
    }


def _none_yet(frame: DataFrame) -> int | None:
    plan: Any = frame._jdf.queryExecution().analyzed()
    return None if fingerprint(plan) else 0
