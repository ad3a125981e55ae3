"""Refuses queries that another driver could not continue, or could not stand by for, when the script starts them."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime.describe import kafka_relations_of
from airflow_stream_provider.runtime.driver_folders import own_folder
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
