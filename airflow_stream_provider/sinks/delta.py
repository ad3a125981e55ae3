"""Delta: the entry is in `userMetadata` of the commits, and a transaction's number lets Delta refuse a fenced driver.

Each commit has a number under the query's name: epoch and counter in one that grows. Delta refuses a commit whose
number is not higher than the last one, also when another driver has written it after this one had begun.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from airflow_stream_provider.sinks.given import in_backticks
from airflow_stream_provider.sinks.lake import LEDGER, Commit, Lake, LakeLedger, quoted, session
from airflow_stream_provider.sinks.ledger import SinkError, SinkRefused, Target, Writer

# Numbers of an epoch.
_EPOCH = 1 << 32
# So many of the newest commits are read first; then all.
_NEWEST = 20
_CONF = "spark.databricks.delta."
# Without it two drivers can both write the same commit: Delta's own store for S3 knows one JVM only.
_S3_STORE = "spark.delta.logStore.{}.impl"
_ONE_DRIVER = "S3SingleDriverLogStore"


def delta() -> Lake:
    """Name Delta: `table` is then a path with a slash in it, or the name of a table in a catalog of the session."""
    return Lake(DeltaLedger)


class DeltaLedger(LakeLedger):
    """The ledger of one query in the commits of a Delta table."""

    kind = "Delta"

    def __init__(self, writer: Writer, target: Target) -> None:
        super().__init__(writer, target)
        self._app = f"{quote(writer.stream, safe='')}/{quote(writer.query, safe='')}"
        self._location = ""
        # The number of the last commit of the query, 0: there is none; and what was found at a version of the table.
        self._number = 0
        self._seen: tuple[int, Commit | None] = (-1, None)

    def _exists(self) -> bool:
        if self._location:
            return True
        table, spark = self._target.table, session()
        if "/" in table:
            self._check_store(spark, table)
            if not _delta_table(spark).isDeltaTable(spark._jsparkSession, table):
                return False
            detail = _details(spark, f"delta.{in_backticks(table)}")
        elif not spark.catalog.tableExists(table):
            return False
        else:
            detail = _details(spark, quoted(table))
        self._check_store(spark, detail["location"])
        if detail["properties"].get("delta.setTransactionRetentionDuration"):
            raise SinkRefused(
                f"The table {table} forgets transactions (delta.setTransactionRetentionDuration): it would take a "
                "batch again.",
                next_step="Unset this property of the table.",
            )
        self._location = str(detail["location"])
        return True

    def _check_store(self, spark: SparkSession, location: str) -> None:
        hadoop = _jvm(spark).org.apache.hadoop.fs
        default = hadoop.FileSystem.getDefaultUri(spark._jsparkSession.sessionState().newHadoopConf())
        scheme = (hadoop.Path(location).toUri().getScheme() or default.getScheme()).lower()
        store = spark.sparkContext.getConf().get(_S3_STORE.format(scheme)) or _ONE_DRIVER
        if scheme in ("s3", "s3a", "s3n") and store.endswith(_ONE_DRIVER):
            raise SinkRefused(
                f"The table {self._target.table} is in S3, where Delta's default, {_ONE_DRIVER}, lets two drivers "
                "write the same commit.",
                next_step=f"Set {_S3_STORE.format(scheme)} to a store for several clusters, such as "
                "io.delta.storage.S3DynamoDBLogStore.",
            )

    def _create(self, schema: StructType) -> None:
        writer = session().createDataFrame([], schema).write.format("delta").mode("ignore")
        if "/" in self._target.table:
            writer.save(self._target.table)
        else:
            writer.saveAsTable(self._target.table)

    def _schema(self) -> StructType:
        return session().read.format("delta").load(self._location).schema

    def _address(self) -> str:
        return f"delta.{in_backticks(self._location)}"

    # -- the ledger --------------------------------------------------------------------------------------------------

    def _find(self) -> Commit | None:
        spark = session()
        log: Any = _jvm(spark).org.apache.spark.sql.delta.DeltaLog
        snapshot = log.forTableWithSnapshot(spark._jsparkSession, self._location)._2()
        version = int(snapshot.version())
        if version != self._seen[0]:
            number = snapshot.transactions().get(self._app)
            self._number = int(number.get()) if number.isDefined() else 0
            self._seen = (version, self._read() if self._number else None)
        return self._seen[1]

    def _read(self) -> Commit:
        """Return the newest commit of the query; its rows' end is that of the version to which the table was restored.

        :raises SinkRefused: it is not there any more.
        """
        newest: Commit | None = None
        restored: int | None = None
        first = -1
        for row in self._history():
            first = row["version"]
            counts = restored is None or first <= restored
            if counts and row["operation"] == "RESTORE":
                restored = self._restored(row)
            found = self._commit_of(row)
            if found is None:
                continue
            newest = newest or found
            if counts:
                return newest.ending(found.entry)
        if newest is not None and first == 0:
            # It was restored to what it was before the first commit of the query.
            return newest.ending(None)
        raise SinkRefused(
            f"The table {self._target.table} has rows of {self._writer.name}, and Delta's history does not say any "
            "more where they end: its log was cleaned.",
            next_step="See in the table where its rows end, and go on from there under another name of the query "
            "(query=…) on a new checkpoint. A longer delta.logRetentionDuration keeps the history.",
        )

    def _restored(self, row: Row) -> int:
        version = row["operationParameters"].get("version")
        if version is None:
            raise SinkRefused(
                f"The table {self._target.table} was restored to a time, in its version {row['version']}.",
                next_step="Restore it to a version (RESTORE … TO VERSION AS OF …): the ledger follows that.",
            )
        return int(version)

    def _history(self) -> Iterator[Row]:
        """Yield the commits, the newest first."""
        spark = session()
        table = _delta_table(spark).forPath(spark._jsparkSession, self._location)
        last: int | None = None
        for frame in (lambda: table.history(_NEWEST), table.history):
            rows = DataFrame(frame(), spark).select(
                "version", "operation", "operationParameters", "operationMetrics", "userMetadata"
            )
            for row in rows.collect():
                if last is None or row["version"] < last:
                    last = row["version"]
                    yield row

    def _commit_of(self, row: Row) -> Commit | None:
        if not re.match(rf'\{{"{LEDGER}": ', row["userMetadata"] or ""):
            return None
        found = json.loads(row["userMetadata"])
        if found["app"] != self._app:
            return None
        metrics = row["operationMetrics"] or {}
        rows = metrics.get("numSourceRows") or metrics.get("numOutputRows") or 0
        return Commit.of(found[LEDGER], int(rows))

    def _commit(self, rows: DataFrame | None, commit: Commit) -> None:
        claims = rows is None
        number = commit.entry.epoch * _EPOCH if claims else self._number + 1
        said = json.dumps({LEDGER: commit.text(), "app": self._app})
        if rows is not None and self._target.key:
            conf = rows.sparkSession.conf
            given = {"write.txnAppId": self._app, "write.txnVersion": str(number), "commitInfo.userMetadata": said}
            for name, value in given.items():
                conf.set(_CONF + name, value)
            try:
                self._merge(rows)
            finally:
                for name in given:
                    conf.unset(_CONF + name)
            return
        if rows is None:
            rows = session().createDataFrame([], self._schema())
        writer = rows.write.format("delta").mode("append").option("userMetadata", said)
        writer.option("txnAppId", self._app).option("txnVersion", number).save(self._location)


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _delta_table(spark: SparkSession) -> Any:
    found = _jvm(spark).io.delta.tables.DeltaTable
    if not callable(getattr(found, "isDeltaTable", None)) or "Package" in type(found).__name__:
        raise SinkError(
            "Delta is not on the class path of this driver.",
            next_step="Add it: spark.jars.packages=io.delta:delta-spark_2.13:VERSION, with Delta's two settings "
            "spark.sql.extensions and spark.sql.catalog.spark_catalog.",
        )
    return found


def _details(spark: SparkSession, name: str) -> Row:
    found = spark.sql(f"describe detail {name}").first()
    if found is None or found["format"] != "delta":
        raise SinkRefused(f"{name} is no Delta table.", next_step="Name one, or use the sink of its kind.")
    return found
