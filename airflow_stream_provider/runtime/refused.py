"""Refuses queries that another driver could not continue, and what would start a stream past the gate."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Mapping
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pyspark.util
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.lifecycle.errors import RehearsalRefused, SpecError, StreamError
from airflow_stream_provider.runtime.describe import kafka_relations_of
from airflow_stream_provider.runtime.driver_folders import own_folder
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.writer_spec import WriterSpec, writer_spec_of

# Formats whose path is a folder; of others it may be the name of a table or of an index.
FOLDERS = ("parquet", "json", "csv", "orc", "text", "avro", "xml", "delta", "hudi")
# With a slash, the path of these is a folder, too.
TABLES_OR_FOLDERS = ("iceberg", "paimon", "lance")
CATALOG = "spark.sql.catalog"
SESSION_CATALOG = "spark_catalog"


# With it a driver reads a topic's partitions as a member of the group, and Kafka gives each partition to one member.
_BY_GROUP = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def check_sources(writer: DataStreamWriter) -> None:
    """Check that two drivers can read the sources of this query at once, as one does that stands by.

    :raises SpecError: they would be members of one consumer group.
    """
    if str(writer._spark.conf.get(_BY_GROUP, "false")).lower() != "true":
        return
    for relation in kafka_relations_of(writer._df):
        group = relation.extraOptions().get("kafka.group.id")
        if group is not None:
            raise SpecError(
                f"The query {writer_spec_of(writer).name or '(unnamed)'} reads Kafka with kafka.group.id={group} and "
                f"{_BY_GROUP}=true: its drivers would be members of one group, so a driver that stands by would take "
                "partitions away from the one that holds, which fails at that.",
                next_step=f"Leave out {_BY_GROUP}: only executors use the group then, and do not join it. Or leave out "
                "kafka.group.id.",
            )


def check_sink(writer: DataStreamWriter) -> None:
    """Check that any driver of the stream can continue what this query writes.

    The writes of a function of foreachBatch or foreach are not seen.

    :raises SpecError: a path or a table that only this driver has; a memory sink that Spark cannot recover.
    """
    spec = writer_spec_of(writer)
    name = spec.name or "(unnamed)"
    if spec.to_table:
        _check_table(name, spec.target, writer._spark)
    elif spec.sink == "memory" and spec.output_mode != "complete":
        # DataStreamWriter: recoverFromCheckpoint = outputMode == Complete.
        raise SpecError(
            f"The query {name} writes to a memory sink in {spec.output_mode} mode: Spark does not recover that from a "
            "checkpoint, so no other driver could continue it.",
            next_step="Use the output mode complete, or another sink; foreachBatch can keep rows, too.",
        )
    else:
        _check_path(name, spec, writer)


def _check_path(name: str, spec: WriterSpec, writer: DataStreamWriter) -> None:
    path = spec.target or spec.options.get("path", "")
    if path and not path.startswith("/") and not urlsplit(path).scheme and _writes_folders(spec, writer):
        raise SpecError(
            f"The query {name} writes to the relative path {path}, so each driver would write to another folder.",
            next_step="Use an absolute path on storage that all drivers mount, or a URL.",
        )
    own = _own_folder(path)
    if own:
        raise SpecError(
            f"The query {name} writes to {path}, which is in {own}: each driver would write to another folder.",
            next_step="Use a folder on storage that all drivers mount, or a URL; os.path.abspath, __file__ and "
            "tempfile give folders of one driver.",
        )


def _own_folder(location: str) -> str:
    """Return which folder of this driver a path or URL is in, in words; empty when it is in none."""
    url = urlsplit(location)
    if url.scheme not in ("", "file"):
        return ""
    path = unquote(url.path) if url.scheme else location
    return own_folder(path) if path.startswith("/") else ""


def _writes_folders(spec: WriterSpec, writer: DataStreamWriter) -> bool:
    if spec.foreach or spec.foreach_batch is not None:
        return False
    named = spec.format or str(writer._spark.conf.get("spark.sql.sources.default", "parquet"))
    short = named.lower().rpartition(".")[2]  # also org.apache.hudi
    return short in FOLDERS or (short in TABLES_OR_FOLDERS and "/" in (spec.target or spec.options.get("path", "")))


def _check_table(name: str, table: str, session: Any) -> None:
    catalog, parts = session.catalog.currentCatalog(), table.replace("`", "").split(".")
    if len(parts) > 1 and (parts[0].lower() == SESSION_CATALOG or session.conf.get(f"{CATALOG}.{parts[0]}", None)):
        catalog = parts.pop(0)
    if catalog.lower() != SESSION_CATALOG or _keeps_tables_elsewhere(session):
        _check_warehouse(name, table, catalog, session)
        return
    if session.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        raise _local(name, table, "Spark's catalog is in this driver's memory (spark.sql.catalogImplementation)")
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    database = hadoop.get("javax.jdo.option.ConnectionURL") or "derby"
    if not hadoop.get("hive.metastore.uris") and "derby" in database:
        raise _local(name, table, "Hive's metastore is a Derby database of this driver (no hive.metastore.uris)")
    try:
        location = session.catalog.getDatabase(parts[-2] if len(parts) > 1 else session.catalog.currentDatabase())
    except PySparkException:
        return  # no such database: Spark says so itself, when the query starts
    own = _own_folder(str(location.locationUri))
    if own:
        raise _local(name, table, f"its database is in {own}")


def _keeps_tables_elsewhere(session: Any) -> bool:
    """Whether the session's catalog was replaced by one that does not keep its tables where Spark does.

    Delta's and, unless they are told otherwise (`type`, `catalog-impl`, the `uri` of a server), Iceberg's and Unity
    Catalog's only stand before Spark's own.
    """
    setting = f"{CATALOG}.{SESSION_CATALOG}"
    kind = session.conf.get(f"{setting}.type", None) or "hive"
    server = any(session.conf.get(f"{setting}.{key}", None) for key in ("catalog-impl", "uri"))
    return kind.lower() != "hive" or server


def _check_warehouse(name: str, table: str, catalog: str, session: Any) -> None:
    """Check where a catalog of its own, such as Iceberg's, keeps its tables."""
    setting = f"{CATALOG}.{catalog}"
    kinds = [session.conf.get(f"{setting}.{key}", None) or "" for key in ("type", "catalog-impl", "metastore")]
    warehouse = session.conf.get(f"{setting}.warehouse", None) or ""
    # The warehouse of a REST catalog is a name; Paimon calls its kind `metastore`.
    is_path = warehouse and not urlsplit(warehouse).scheme and not any("rest" in kind.lower() for kind in kinds)
    if is_path and not warehouse.startswith("/"):
        raise _local(name, table, f"the warehouse of its catalog is the relative path {warehouse} ({setting})")
    own = _own_folder(warehouse)
    if own:
        raise _local(name, table, f"the warehouse of its catalog is in {own} ({setting})")


def _local(name: str, table: str, why: str) -> SpecError:
    return SpecError(
        f"The query {name} writes to the table {table}, which other drivers of the stream do not have: {why}.",
        next_step="Use a catalog and a warehouse that all drivers share, or write to an absolute path with start().",
    )


_TRIGGERS = {"continuous": "in continuous mode", "realTime": "in real-time mode"}


def check_engine(label: str, spec: WriterSpec) -> None:
    """Check that a query writes its offsets before each batch, and its commit after it.

    :raises RehearsalRefused: it runs in continuous or real-time mode, or with asynchronous progress tracking.
    """
    found = next((how for trigger, how in _TRIGGERS.items() if trigger in spec.trigger), "")
    if spec.options.get("asyncprogresstrackingenabled", "").lower() == "true":
        found = "with asynchronous progress tracking"
    if found:
        raise RehearsalRefused(
            f"The query {label} runs {found}, so that it has no batch boundaries to be handed over at.",
            next_step="Run it with a processing time trigger and without asyncProgressTrackingEnabled, or without this "
            "package.",
            query=label,
        )


SETTING = "spark.sql.streaming.checkpointFileManagerClass"
# Its close() swallows every error, in each version of Spark that could be read. Measured on S3A: a refused write of
# offsets/16 was a warning, and commits/16 was written.
SWALLOWS = "AbortableStreamBasedCheckpointFileManager"


def check_file_manager(writer: DataStreamWriter) -> None:
    """Check that Spark fails a query when a file of its checkpoint could not be written.

    :raises SpecError: the session uses the manager that does not.
    """
    # As Spark asks: it may come from the session, spark-defaults.conf, core-site.xml or the script's own Hadoop conf.
    session: Any = writer._spark._jsparkSession
    found = str(session.sessionState().newHadoopConf().get(SETTING) or "")
    if found.rpartition(".")[2] == SWALLOWS:
        raise SpecError(
            f"The query {writer_spec_of(writer).name or '(unnamed)'} cannot run with {SWALLOWS}: when the storage "
            "refuses to take a batch's offsets, Spark only logs that, and commits the batch all the same.",
            next_step=f"Do not set {SETTING}, neither in Spark's conf nor in Hadoop's: by default Spark writes each "
            "file under another name and renames it.",
        )


CONNECT = "Spark Connect runs its queries in another process, where this driver can neither hold nor stop them"
DSTREAMS = "a DStream has no batch boundaries to be handed over at"
# By module: class, methods, why. They are patched when the script imports them, because that takes a second and 90 MB.
PATHS = {
    "pyspark.sql.connect.streaming.readwriter": ("DataStreamWriter", ("start", "toTable"), CONNECT),
    "pyspark.streaming.context": ("StreamingContext", ("start",), DSTREAMS),
}


def install(refuse: Callable[[StreamError], None]) -> None:
    """Patch pyspark before the script runs, so that what the gate does not see is refused instead of started.

    :param refuse: as of `Gate.install`.
    """
    for method in ("getOrCreate", "create"):
        _refuse_connect(method, refuse)
    for name, (cls, methods, why) in PATHS.items():
        _after_import(name, functools.partial(_refuse_methods, cls=cls, methods=methods, why=why, refuse=refuse))


def check_jvm(queries: Collection[ManagedQuery], own: Collection[str]) -> None:
    """Check that the sessions of these queries run no other stream, such as one that a library in Scala has started.

    :param own: ids of the rehearsals' queries.
    :raises RehearsalRefused: they do.
    """
    sessions = [query.writer._df.sparkSession for query in queries]
    active = [stream for session in sessions for stream in session.streams._jsqm.active()]
    known = {*own, *(query.real.id for query in queries if query.real is not None)}
    found = {stream.id().toString(): stream.name() for stream in active}
    names = sorted(name or identity for identity, name in found.items() if identity not in known)
    if names:
        raise RehearsalRefused(
            f"The streaming query {', '.join(names)} runs in this driver already, though the driver does not hold the "
            "stream: PySpark's DataStreamWriter has not started it.",
            next_step="Start every query by DataStreamWriter.start or toTable. Look at what this one has written: it "
            "ran beside the release that holds the stream.",
        )


def _refuse_connect(method: str, refuse: Callable[[StreamError], None]) -> None:
    original = getattr(SparkSession.Builder, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def get_or_create(self: SparkSession.Builder) -> SparkSession:
        asked = _asked_by(self._options)
        if asked:
            _refuse(refuse, f"The script makes a Spark Connect session ({asked})", CONNECT)
        made: SparkSession = original(self)
        return made

    setattr(SparkSession.Builder, method, get_or_create)


def _asked_by(options: Mapping[str, Any]) -> str:
    """Return what makes pyspark choose Spark Connect, as `Builder.getOrCreate` of 3.5 to 4.x does; empty: nothing."""
    found = [name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in os.environ]
    found += [name for name in ("spark.remote",) if name in options]
    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode not in ("classic", "connect"):
        mode = getattr(pyspark.util, "default_api_mode", lambda: "classic")()
    return next(iter(found), "spark.api.mode" if mode == "connect" else "")


def _refuse(refuse: Callable[[StreamError], None], what: str, why: str) -> None:
    error = SpecError(
        f"{what}: {why}.",
        next_step="Use a classic SparkSession and DataStreamWriter: without remote(), SPARK_REMOTE and spark.api.mode.",
    )
    refuse(error)
    raise error


def _refuse_methods(
    module: ModuleType, cls: str, methods: Collection[str], why: str, refuse: Callable[[StreamError], None]
) -> None:
    patched = getattr(module, cls)
    for method in methods:

        def start(self: Any, *args: Any, method: str = method, **kwargs: Any) -> None:
            _refuse(refuse, f"The script calls {module.__name__}.{cls}.{method}", why)

        setattr(patched, method, start)


def _after_import(name: str, patch: Callable[[ModuleType], None]) -> None:
    if name in sys.modules:
        patch(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, patch))


class _Finder(MetaPathFinder):
    """Sees to it that one module is patched when it is imported, and then is gone."""

    def __init__(self, name: str, patch: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._patch = patch

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is not None:
            found.loader = _Loader(found.loader, self._patch)
        return found


class _Loader(Loader):
    """Runs a module's code with its own loader, then patches the module."""

    def __init__(self, loader: Any, patch: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._patch = patch

    def exec_module(self, module: ModuleType) -> None:
        # As each of Python's loaders does it; that of zip files has no method for it in Python 3.9.
        InspectLoader.exec_module(self._loader, module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._patch(module)
