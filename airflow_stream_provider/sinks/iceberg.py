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
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_stream_provider.sinks.given import in_backticks
from airflow_stream_provider.sinks.lake import LEDGER, Commit, LakeLedger, quoted, session
from airflow_stream_provider.sinks.ledger import SinkError, SinkRefused, Target, Writer

# A batch is written again so often where commits of others have moved main meanwhile.
TRIES = 5
# A snapshot expiry drops the branch of a driver that ended so long ago.
_BRANCH_AGE_MS = 24 * 3600 * 1000
# Properties of a snapshot besides the entry: whose it is, and the rows of a MERGE.
_APP, _ROWS = f"{LEDGER}.app", f"{LEDGER}.rows"


def iceberg() -> Iceberg:
    """Name Iceberg: `table` is then the name of a table in a catalog of the session, such as `catalog.db.orders`."""
    return Iceberg()


class Iceberg:
    """See `iceberg`."""

    def __repr__(self) -> str:
        return "iceberg()"

    def place(self, target: Target) -> str:
        """Return where the ledgers of a target are kept: in its own table."""
        return f"{self!r} {target.table}"

    def ledger(self, writer: Writer, target: Target) -> IcebergLedger:
        """Return the ledger of one query, for one writer."""
        return IcebergLedger(writer, target)


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
        # The head of main, and what was found there.
        self._seen: tuple[int | None, Commit | None] = (None, None)

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
        head = _id(table.currentSnapshot())
        if head is None or head != self._seen[0]:
            self._seen = (head, self._read(table))
        return self._seen[1]

    def _read(self, table: Any) -> Commit | None:
        """Return the newest entry before main's head, so that the ledger follows a roll-back.

        :raises SinkRefused: there was one, and it cannot be found any more.
        """
        last: Any = None
        for last in _ancestors(table):
            found = self._commit_of(last)
            if found is not None:
                return found
        tag = table.refs().get(self._tag)
        if tag is not None:
            kept = table.snapshot(tag.snapshotId())
            commit = self._commit_of(kept)
            whole = last is not None and last.parentId() is None
            if commit is not None and whole:
                # Main was rolled back to what it was before the first commit of the query.
                return replace(commit, entry=replace(commit.entry, query_id="", batch_id=-1, offsets=()))
            if commit is not None and last is not None and kept.timestampMillis() <= last.timestampMillis():
                return commit
        elif table.properties().get(self._property) is None:
            return None
        raise SinkRefused(
            f"The table {self._target.table} has rows of {self._writer.name}, and its snapshots do not say any more "
            f"where they end: the tag {self._tag} is gone, or main was rolled back to before it.",
            next_step="See in the table where its rows end, and go on from there under another name of the query "
            "(query=…) on a new checkpoint.",
        )

    def _commit_of(self, snapshot: Any) -> Commit | None:
        summary = snapshot.summary()
        if summary.get(_APP) != self._app:
            return None
        return Commit.of(summary.get(LEDGER), int(summary.get(_ROWS) or summary.get("added-records") or 0))

    def _commit(self, rows: DataFrame | None, commit: Commit) -> None:
        before = self._seen[1]
        failure: Exception | None = None
        for _ in range(TRIES):
            now = self._find()
            if now != before:
                return  # another driver was faster, or the last try has succeeded all the same
            head = self._seen[0]
            self._start(head)
            self._write(rows, commit)
            try:
                if self._publish(head, commit):
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

    def _publish(self, head: int | None, commit: Commit) -> bool:
        """Let main and the tag be what the branch is, if main is still there; False: it has moved."""
        table = self._table()
        ours = table.refs().get(self._branch).snapshotId()
        written = self._commit_of(table.snapshot(ours))
        change = table.newTransaction()  # reads the table anew, and fails where that changes before its commit
        if _id(table.currentSnapshot()) != head or written is None or written.text() != commit.text():
            return False
        manage = change.manageSnapshots().fastForwardBranch("main", self._branch)
        tagged = table.refs().get(self._tag) is not None
        manage = manage.replaceTag(self._tag, ours) if tagged else manage.createTag(self._tag, ours)
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


def _ancestors(table: Any) -> Iterator[Any]:
    """Yield the snapshots of main that are known, the newest first."""
    each = table.currentSnapshot()
    while each is not None:
        yield each
        parent = each.parentId()
        each = None if parent is None else table.snapshot(parent)


def _id(snapshot: Any) -> int | None:
    return None if snapshot is None else int(snapshot.snapshotId())
