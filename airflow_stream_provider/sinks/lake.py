"""A table whose own commits keep the ledger: each commit of ours has the entry, and moves it with the rows."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_stream_provider.sinks.given import check_columns, check_fit, in_backticks, no_key, same_key
from airflow_stream_provider.sinks.ledger import (
    BadRows,
    Batch,
    Entry,
    Fenced,
    SinkError,
    SinkRefused,
    Target,
    Writer,
    fenced,
    is_to_be_written,
)

# Under this name a commit has its entry.
LEDGER = "stream_ledger"
# Types of a batch, besides the same, that a column of the table holds without loss.
_WIDER = {
    "tinyint": {"smallint", "int", "bigint"},
    "smallint": {"int", "bigint"},
    "int": {"bigint"},
    "float": {"double"},
}
# In the classes of what Spark says about rows that break a rule of the table.
_BROKEN_RULES = ("NOT_NULL", "VIOLATE_CONSTRAINT", "CAST_OVERFLOW")


@dataclass(frozen=True)
class Commit:
    """The entry that a commit has.

    :param entry: of the ledger.
    :param control: id of the control log by which its writer holds; empty: it is a plain job.
    :param hold: its epoch there.
    :param rows: rows that the commit has written, as the table counts them.
    """

    entry: Entry
    control: str
    hold: int
    rows: int = 0

    def text(self) -> str:
        """Return it as it is stored."""
        return json.dumps({**asdict(self.entry), "control": self.control, "hold": self.hold})

    @staticmethod
    def of(text: str, rows: int = 0) -> Commit:
        """Return it from its text."""
        found = json.loads(text)
        control, hold = found.pop("control"), found.pop("hold")
        return Commit(Entry(**found), control, hold, rows)

    def ending(self, at: Entry | None) -> Commit:
        """Return this claim with the rows of another entry, for a table that was set back; None: it has none."""
        ends = (at.query_id, at.batch_id, at.offsets) if at else ("", -1, ())
        entry = replace(self.entry, query_id=ends[0], batch_id=ends[1], offsets=ends[2])
        return replace(self, entry=entry)


@dataclass(frozen=True)
class Lake:
    """A kind of lake; see `delta` and `iceberg`.

    :param kind: the class of its ledgers.
    """

    kind: type[LakeLedger]

    def ledger(self, writer: Writer, target: Target) -> LakeLedger:
        """Return the ledger of one query, for one writer."""
        return self.kind(writer, target)

    def place(self, target: Target) -> str:
        """Return where the ledgers of a target are kept: in its own table."""
        return f"{self.kind.kind} {target.table}"


class LakeLedger:
    """One writer of one query: `claim` comes before `write`. Its kinds say how a commit is found and made."""

    # For people, and in the text of errors.
    kind = ""

    def __init__(self, writer: Writer, target: Target) -> None:
        self._writer = writer
        self._target = target
        self._id = str(uuid.uuid4())
        self.epoch = 0

    # -- of each kind ------------------------------------------------------------------------------------------------

    def _exists(self) -> bool:
        """Whether there is such a table.

        :raises SinkError: it is of another kind, or no ledger can be kept there.
        """
        raise NotImplementedError

    def _create(self, schema: StructType) -> None:
        """Create the table; one that another driver has created meanwhile is left."""
        raise NotImplementedError

    def _schema(self) -> StructType:
        """Return the columns of the table."""
        raise NotImplementedError

    def _find(self) -> Commit | None:
        """Return the newest commit of the query.

        :raises SinkRefused: the table says that there was one, and has it no more.
        """
        raise NotImplementedError

    def _commit(self, rows: DataFrame | None, commit: Commit) -> None:
        """Write rows, or none, with an entry that follows the one that `_find` has returned last.

        It may write nothing and raise nothing where another driver was faster.
        """
        raise NotImplementedError

    def _address(self) -> str:
        """Return the table as SQL names it, for a MERGE."""
        raise NotImplementedError

    # -- of all ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of this claim."""
        return self._id

    def close(self) -> None:
        """End the session; the claim stays."""

    def known(self) -> Entry | None:
        """Return the entry, without a claim; None: there is none."""
        found = self._find() if self._exists() else None
        return found.entry if found else None

    def claim(self) -> None:
        """Become the one that may write: the ledger refuses the driver that has claimed it before.

        Where the table is yet to be created, that waits for the first batch, which has its columns.

        :raises SinkRefused: another driver claims it at the same time, or one that held later has claimed it.
        """
        if not self._exists():
            if not self._target.create:
                raise BadRows(
                    f"There is no {self.kind} table {self._target.table}.",
                    next_step="Create it, or let the sink do so with create=True.",
                    table=self._target.table,
                )
            return
        while not self.epoch:
            found = self._find()
            if found and self._writer.held_before(found.control, found.hold):
                raise fenced(found.entry)
            before = found.entry if found else self._unclaimed()
            try:
                self._add(None, replace(before, epoch=before.epoch + 1, writer=self._id, holder=self._writer.holder))
                self.epoch = before.epoch + 1
            except Fenced:
                # Another driver was faster. One that held before does not keep this one out: it claims again.
                found = self._find()
                if found is None or found.control != self._writer.control:
                    raise

    def entry(self) -> Entry:
        """Return the entry as it is now."""
        if not self.epoch:
            return self._unclaimed()
        found = self._find()
        if found is None:
            raise SinkRefused(
                f"The ledger of {self._writer.name} is gone from the table {self._target.table}.",
                next_step="See who has replaced the table. Without its ledger the sink does not know what it holds.",
            )
        return found.entry

    def write(self, frame: DataFrame, batch: Batch) -> int:
        """Write the rows of a batch and its offsets in one commit; return the number of rows.

        :raises SinkRefused: rows do not fit the table, or another driver has claimed the ledger.
        :raises SinkError: the commit failed; nothing was written.
        """
        if not self.epoch:
            self._create(_without(frame.schema, self._target.delete))
            self.claim()
        with self._checked(frame) as rows:
            # Again: somebody may have claimed the ledger or set the table back while the rows were computed.
            before = self.entry()
            if not is_to_be_written(before, self._id, batch):
                return 0
            after = replace(before, query_id=batch.query_id, batch_id=batch.batch_id, offsets=list(batch.ends))
            return self._add(rows, after)

    def rehearse(self, frame: DataFrame) -> None:
        """Check table and rows: all of them are computed, and none is written.

        :raises SinkRefused: they do not fit.
        """
        if not self._exists() and not self._target.create:
            raise BadRows(f"There is no {self.kind} table {self._target.table}.", next_step="Create it.")
        with self._checked(frame) as rows:
            rows.write.format("noop").mode("overwrite").save()

    def _unclaimed(self) -> Entry:
        return Entry(self._writer.stream, self._writer.query, 0, self._id, self._writer.holder)

    def _add(self, rows: DataFrame | None, entry: Entry) -> int:
        """Commit, and see in the table whether that was done: it may also be refused without a word."""
        failure: Exception | None = None
        commit = Commit(entry, self._writer.control, self._writer.hold)
        try:
            self._commit(rows, commit)
        except (PySparkException, Py4JError) as error:
            failure = error
        now = self._find()
        if now is not None and now.text() == commit.text():
            return now.rows
        if now is not None and now.entry.writer != self._id and now.entry.epoch >= entry.epoch:
            raise fenced(now.entry) from failure
        name = _class_of(failure)
        if any(each in name for each in _BROKEN_RULES):
            raise BadRows(
                f"The rows break a rule of the table {self._target.table} ({name}).",
                next_step="Correct the rows in the script, or change the table.",
            ) from failure
        raise SinkError(
            f"The {self.kind} table {self._target.table} did not take the commit ({name}).",
            next_step="See the error before this one. The query tries again.",
        ) from failure

    @contextlib.contextmanager
    def _checked(self, frame: DataFrame) -> Iterator[DataFrame]:
        """Yield the frame with the types of the table; with a key it is kept meanwhile, and no key is twice in it."""
        target = self._target
        check_columns(target, frame.schema)
        wanted = self._schema() if self._exists() else _without(frame.schema, target.delete)
        check_types(target, frame.schema, wanted)
        types = {field.name: field.dataType for field in wanted.fields}
        rows = frame.select(
            *(F.col(in_backticks(n)).cast(types[n]) if n in types else F.col(in_backticks(n)) for n in frame.columns)
        )
        if not target.key:
            yield rows
            return
        rows = rows.persist()
        try:
            nulls = F.greatest(*(F.max(F.col(in_backticks(name)).isNull()) for name in (*target.key, *target.key[:1])))
            each = rows.groupBy(*(F.col(in_backticks(name)) for name in target.key)).agg(
                F.count("*").alias("n"), nulls.alias("none")
            )
            found = each.where("n > 1 or none").select("none").first()
            if found is not None:
                raise no_key(target) if found[0] else same_key(target)
            yield rows
        finally:
            rows.unpersist()

    def _merge(self, rows: DataFrame) -> None:
        """Let rows replace those with their key, in the table that `_address` names."""
        view = f"stream_batch_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            rows.sparkSession.sql(merge_statement(self._target, rows.columns, self._address(), view)).collect()
        finally:
            rows.sparkSession.catalog.dropTempView(view)


def session() -> SparkSession:
    """Return the session of this thread.

    :raises SinkError: there is none.
    """
    found = SparkSession.getActiveSession()
    if found is None:
        raise SinkError("There is no SparkSession.", next_step="Make one first.")
    return found


def quoted(table: str) -> str:
    """Return the name of a table as SQL quotes it, part by part."""
    return ".".join(in_backticks(part) for part in table.split("."))


def merge_statement(target: Target, columns: Sequence[str], into: str, view: str) -> str:
    """Return the MERGE of a batch by its key."""
    real = [name for name in columns if name != target.delete]
    others = [name for name in real if name not in target.key]
    gone = f"coalesce(s.{in_backticks(target.delete)}, false)" if target.delete else ""
    same = {name: f"t.{in_backticks(name)} = s.{in_backticks(name)}" for name in real}
    lines = [
        f"merge into {into} t using {view} s",
        "on " + " and ".join(same[name] for name in target.key),
        f"when matched and {gone} then delete" if gone else "",
        f"when matched then update set {', '.join(same[name] for name in others)}" if others else "",
        f"when not matched{f' and not {gone}' if gone else ''} then insert ({', '.join(map(in_backticks, real))}) "
        f"values ({', '.join(f's.{in_backticks(name)}' for name in real)})",
    ]
    return "\n".join(filter(None, lines))


def check_types(target: Target, given: StructType, wanted: StructType) -> None:
    """Check that the columns of a batch fit those of the table by name and type.

    :raises BadRows: they do not.
    """
    rows = {field.name: field.dataType.simpleString() for field in _without(given, target.delete).fields}
    table = {field.name: (field.dataType.simpleString(), not field.nullable) for field in wanted.fields}
    check_fit(target, rows, table, lambda kind: {kind, *_WIDER.get(kind, ())})


def _without(schema: StructType, name: str) -> StructType:
    return StructType([field for field in schema.fields if field.name != name])


def _class_of(error: Exception | None) -> str:
    """Return what kinds of errors it is made of, without their texts, which may quote a row."""
    if error is None:
        return "it was skipped"
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    kinds = [] if java is not None else [type(error).__name__]
    while java is not None and len(kinds) < 10:
        named = re.match(r"\[([A-Z0-9_.]+)\]", java.getMessage() or "")
        kinds.append(named.group(1) if named else str(java.getClass().getSimpleName()))
        java = java.getCause()
    return ", ".join(dict.fromkeys(kinds))
