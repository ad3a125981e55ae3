"""Iceberg: the entry is in the summary of snapshots, and a driver writes to a branch of its own, from main's head.

The table takes the branch over as main in one commit, which fails where main has moved since: no other driver has then
claimed the ledger or written. A tag keeps the snapshot with the newest entry when others expire; it moves in the same
commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_stream_provider.sinks.given import in_backticks
from airflow_stream_provider.sinks.lake import LEDGER, Commit, Lake, LakeLedger, quoted, session
from airflow_stream_provider.sinks.ledger import SinkError, SinkRefused, Target, Writer

# A batch is written again so often where commits of others have moved main meanwhile.
TRIES = 5
# A snapshot expiry drops the branch of a driver that ended so long ago.
_BRANCH_AGE_MS = 24 * 3600 * 1000
# Properties of a snapshot besides the entry: whose it is, and the rows of a MERGE.
_APP, _ROWS = f"{LEDGER}.app", f"{LEDGER}.rows"


def iceberg() -> Lake:
    """Name Iceberg: `table` is then the name of a table in a catalog of the session, such as `catalog.db.orders`."""
    return Lake(IcebergLedger)


class IcebergLedger(LakeLedger):
    """The ledger of one query in the snapshots of an Iceberg table."""

    kind = "Iceberg"

    def __init__(self, writer: Writer, target: Target) -> None:
        super().__init__(writer, target)
        self._app = json.dumps([writer.stream, writer.query])
        self._tag = f"stream_{hashlib.sha256(self._app.encode()).hexdigest()[:16]}"
        self._branch = f"{self._tag}_{self._id[:8]}"
        # A property of the table that says that there is a ledger, where nothing else does any more.
        self._property = f"stream-ledger.{self._tag}"
        self._there = False
        # The snapshots of main and of the tag, and what was found there.
        self._at: tuple[int | None, int | None] = (None, None)
        self._seen: Commit | None = None

    def claim(self) -> None:
        """Become the one that may write; see `LakeLedger`. The branches of drivers before are dropped."""
        super().claim()
        if self.epoch:
            self._drop(lambda name: name.startswith(f"{self._tag}_") and name != self._branch)

    def close(self) -> None:
        """Drop the branch; the claim stays."""
        if self.epoch:
            self._drop(lambda name: name == self._branch)

    # -- the table ---------------------------------------------------------------------------------------------------

    def _exists(self) -> bool:
        if not self._there:
            if "/" in self._target.table:
                raise SinkRefused(
                    f"{self._target.table} is a path.",
                    next_step="Name a table of a catalog, such as catalog.db.orders.",
                )
            self._there = bool(session().catalog.tableExists(self._target.table))
        return self._there

    def _create(self, schema: StructType) -> None:
        spark = session()
        columns = spark.createDataFrame([], schema)._jdf.schema().toDDL()
        spark.sql(f"create table if not exists {quoted(self._target.table)} ({columns}) using iceberg")

    def _schema(self) -> StructType:
        return session().table(quoted(self._target.table)).schema

    def _address(self) -> str:
        return f"{quoted(self._target.table)}.{in_backticks(f'branch_{self._branch}')}"

    def _table(self) -> Any:
        """Return Iceberg's table, as it is now."""
        spark = session()
        jvm: Any = spark._jvm
        util = jvm.org.apache.iceberg.spark.Spark3Util
        if "Package" in type(util).__name__:
            raise SinkError(
                "Iceberg is not on the class path of this driver.",
                next_step="Add it: spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION, with "
                "its settings spark.sql.extensions and spark.sql.catalog.….",
            )
        try:
            found = util.loadIcebergTable(spark._jsparkSession, quoted(self._target.table))
        except (PySparkException, Py4JError) as error:
            raise SinkRefused(
                f"{self._target.table} cannot be loaded as an Iceberg table.",
                next_step="Name one, or use the sink of its kind.",
            ) from error
        found.refresh()
        return found

    # -- the ledger --------------------------------------------------------------------------------------------------

    def _find(self) -> Commit | None:
        table = self._table()
        at = self._places(table)
        if at[0] is None or at != self._at:
            self._at, self._seen = at, self._read(table, at[1])
        return self._seen

    def _places(self, table: Any) -> tuple[int | None, int | None]:
        """Return the snapshots of main and of the tag."""
        tag = table.refs().get(self._tag)
        return _snapshot_id(table.currentSnapshot()), None if tag is None else int(tag.snapshotId())

    def _read(self, table: Any, tagged: int | None) -> Commit | None:
        """Return the newest claim, with the rows that are in main: so the ledger follows a roll-back.

        :raises SinkRefused: there was one, and it cannot be found any more.
        """
        kept = None if tagged is None else table.snapshot(tagged)
        newest = None if kept is None else self._commit_of(kept)
        last: Any = None
        for last in _ancestors(table, table.currentSnapshot()):
            found = self._commit_of(last)
            if found is not None:
                # Where main was rolled back to before a claim, that one still fences those before.
                return newest.ending(found.entry) if newest and newest.entry.epoch > found.entry.epoch else found
        if newest is not None and kept is not None and last is not None:
            first = last.parentId() is None
            if first and any(each.snapshotId() == last.snapshotId() for each in _ancestors(table, kept)):
                # Main was rolled back to what it was before the first commit of the query.
                return newest.ending(None)
            if not first and kept.timestampMillis() <= last.timestampMillis():
                return newest
        elif tagged is None and table.properties().get(self._property) is None:
            return None
        raise SinkRefused(
            f"The table {self._target.table} has rows of {self._writer.name}, and its snapshots do not say any more "
            f"where they end: the table was replaced, or main was rolled back to before the tag {self._tag}, or that "
            "is gone.",
            next_step="See in the table where its rows end, and go on from there under another name of the query "
            "(query=…) on a new checkpoint.",
        )

    def _commit_of(self, snapshot: Any) -> Commit | None:
        summary = snapshot.summary()
        if summary.get(_APP) != self._app:
            return None
        return Commit.of(summary.get(LEDGER), int(summary.get(_ROWS) or summary.get("added-records") or 0))

    def _commit(self, rows: DataFrame | None, commit: Commit) -> None:
        before = self._seen
        failure: Exception | None = None
        for _ in range(TRIES):
            now = self._find()
            if now != before:
                return  # another driver was faster, or the last try has succeeded all the same
            at = self._at
            self._start(at[0])
            self._write(rows, commit)
            try:
                if self._publish(at, commit):
                    return
            except (PySparkException, Py4JError) as error:
                failure = error
        raise failure or SinkError(
            f"Commits of others have moved main of {self._target.table} {TRIES} times while a batch was written.",
            next_step="Let compaction run less often, or make the batches smaller. The query tries again.",
        )

    def _start(self, head: int | None) -> None:
        """Let the branch begin at main's head."""
        table = self._table()
        audit = [name for name in ("spark.wap.id", "spark.wap.branch") if session().conf.get(name, None)]
        if audit and str(table.properties().get("write.wap.enabled")).lower() == "true":
            raise SinkRefused(
                f"The session has {audit[0]}, and the table {self._target.table} has write.wap.enabled: Iceberg would "
                "not write the rows where the sink writes their end.",
                next_step="Unset one of them.",
            )
        ref = table.refs().get(self._branch)
        if ref is None:
            manage = table.manageSnapshots()
            manage = manage.createBranch(self._branch) if head is None else manage.createBranch(self._branch, head)
            manage.commit()
            table.manageSnapshots().setMaxRefAgeMs(self._branch, _BRANCH_AGE_MS).commit()
        elif head is not None and ref.snapshotId() != head:
            table.manageSnapshots().replaceBranch(self._branch, head).commit()

    def _write(self, rows: DataFrame | None, commit: Commit) -> None:
        """Write to the branch, the entry last."""
        properties = {LEDGER: commit.text(), _APP: self._app}
        if rows is not None and not self._target.key:
            given = set(rows.columns)
            nulls = [F.lit(None).cast(f.dataType).alias(f.name) for f in self._schema().fields if f.name not in given]
            writer = rows.select("*", *nulls).writeTo(self._address())
            for name, value in properties.items():
                writer = writer.option(f"snapshot-property.{name}", value)
            writer.append()
            return
        if rows is not None:
            self._merge(rows)
            properties[_ROWS] = str(rows.count())
        append = self._table().newFastAppend().toBranch(self._branch)
        for name, value in properties.items():
            append = append.set(name, value)
        append.commit()

    def _publish(self, at: tuple[int | None, int | None], commit: Commit) -> bool:
        """Let main and the tag be what the branch is, if both are still where they were; False: they have moved."""
        table = self._table()
        branch = table.refs().get(self._branch)
        if branch is None:
            return False  # the claim of another driver has dropped it
        ours = branch.snapshotId()
        written = self._commit_of(table.snapshot(ours))
        change = table.newTransaction()  # reads the table anew, and fails where that changes before its commit
        if self._places(table) != at or written is None or written.text() != commit.text():
            return False
        manage = change.manageSnapshots().fastForwardBranch("main", self._branch)
        manage = manage.createTag(self._tag, ours) if at[1] is None else manage.replaceTag(self._tag, ours)
        manage.commit()
        if table.properties().get(self._property) is None:
            change.updateProperties().set(self._property, self._app).commit()
        change.commitTransaction()
        return True

    def _drop(self, which: Any) -> None:
        """Drop branches. One that stays does no harm until a snapshot expiry drops it."""
        with contextlib.suppress(PySparkException, Py4JError):
            table = self._table()
            manage = table.manageSnapshots()
            for name in [str(each) for each in table.refs().keySet() if which(str(each))]:
                manage = manage.removeBranch(name)
            manage.commit()


def _ancestors(table: Any, each: Any) -> Iterator[Any]:
    """Yield a snapshot and those before it that are known, the newest first."""
    while each is not None:
        yield each
        parent = each.parentId()
        each = None if parent is None else table.snapshot(parent)


def _snapshot_id(snapshot: Any) -> int | None:
    return None if snapshot is None else int(snapshot.snapshotId())
