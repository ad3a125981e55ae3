"""The entry of a sink's ledger, and whether a batch follows it. Pure.

Spark's checkpoint is at least once: a batch whose commit was not written is run again. The ledger is a row in the
sink's own database with the offsets that the sink holds. It changes in the transaction that writes the rows, so that
rows and offsets are there together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# In the text of every refusal that no restart of the query cures.
REFUSED = "SINK_REFUSED"

# A place in one source, as Spark writes it into its offset log: for Kafka the next offset by topic and partition.
Position = Any


class SinkError(StreamError):
    """A sink cannot be used as it is; nothing of the batch was written."""


class SinkRefused(SinkError):
    """The sink does not take the batch; nothing of it was written, and to try again changes nothing.

    :param message: what was found, and what was expected.
    """

    def __init__(self, message: str, *, next_step: str, **fields: Any) -> None:
        super().__init__(f"{REFUSED}: {message}", next_step=next_step, **fields)


class BadRows(SinkRefused):
    """The rows do not fit the table."""


class Fenced(SinkRefused):
    """Another driver has claimed the ledger: this one may write nothing more."""


class AnotherWriter(SinkRefused):
    """Another driver that is alive writes this query's rows."""


class Gap(SinkRefused):
    """Records between the end of the ledger and the beginning of the batch would never be written."""


class Overlap(SinkRefused):
    """The batch begins before the end of the ledger: rows would be written twice."""


class OtherSource(SinkRefused):
    """The batch does not read what the ledger's rows were made of."""


@dataclass(frozen=True)
class Batch:
    """A batch that is to be written.

    :param query_id: id of the query, which its checkpoint keeps.
    :param batch_id: Spark's number of the batch.
    :param begins: where it begins, by source; None of a source: Spark does not say.
    :param ends: where it ends, by source.
    :param rewound: what a rewind of the stream has written into the checkpoint just before the batch; empty: none has.
    """

    query_id: str
    batch_id: int
    begins: Sequence[Position]
    ends: Sequence[Position]
    rewound: str = ""


@dataclass(frozen=True)
class Entry:
    """The row of one query.

    :param stream: name of the stream.
    :param query: name of the query.
    :param epoch: grows with each claim.
    :param writer: id that the last claim has made up: only its maker may write.
    :param holder: who that is, for people.
    :param query_id: of the last batch; empty: none was written.
    :param batch_id: of the last batch.
    :param offsets: where the last batch ended, by source.
    """

    stream: str
    query: str
    epoch: int
    writer: str
    holder: str
    query_id: str = ""
    batch_id: int = -1
    offsets: Sequence[Position] = ()

    @property
    def name(self) -> str:
        """Stream and query."""
        return f"{self.stream}/{self.query}"


@dataclass(frozen=True)
class Writer:
    """A driver that writes a query.

    :param stream: name of the stream.
    :param query: name of the query.
    :param holder: who it is, for people.
    :param control: id of the control log by which it holds; empty: it is a plain job.
    :param hold: its epoch there.
    :param take_over: whether it ends the session of another writer.
    :param lease_seconds: a session that is idle in a transaction for so long is ended by the server.
    """

    stream: str
    query: str
    holder: str
    control: str = ""
    hold: int = 0
    take_over: bool = False
    lease_seconds: float = 60.0

    @property
    def name(self) -> str:
        """Stream and query."""
        return f"{self.stream}/{self.query}"

    def held_before(self, control: str, hold: int) -> bool:
        """Whether it held the stream before the driver that has claimed the ledger by this control log and epoch."""
        return bool(self.control) and control == self.control and hold > self.hold


@dataclass(frozen=True)
class Target:
    """A table, and how rows get into it.

    :param table: its name, with or without a schema.
    :param key: its columns by which rows replace each other; empty: rows are appended.
    :param delete: a boolean column of the batch, not of the table: true of a row that removes its key; empty: none.
    :param create: whether a missing table is created.
    """

    table: str
    key: Sequence[str] = ()
    delete: str = ""
    create: bool = False


class Ledger(Protocol):
    """One writer of one query, with its session: `claim` comes before `write`."""

    epoch: int

    @property
    def id(self) -> str:
        """The id of this claim."""

    def close(self) -> None:
        """End the session; the claim stays."""

    def known(self) -> Entry | None:
        """Return the entry, without a claim; None: there is none."""

    def claim(self) -> None:
        """Become the one that may write: the ledger refuses the driver that has claimed it before.

        :raises SinkRefused: another driver writes, or one that held the stream later has claimed it.
        """

    def entry(self) -> Entry:
        """Return the entry as it is now."""

    def write(self, frame: DataFrame, batch: Batch) -> int:
        """Write the rows of a batch and its offsets together; return the number of rows.

        :raises SinkRefused: rows do not fit the table, or another driver has claimed the ledger.
        :raises SinkError: the sink failed; nothing was written.
        """

    def rehearse(self, frame: DataFrame) -> None:
        """Check table and rows without writing.

        :raises SinkRefused: they do not fit.
        """


class Database(Protocol):
    """Where tables and ledgers are."""

    def ledger(self, writer: Writer, target: Target) -> Ledger:
        """Return the ledger of one query, for one writer."""

    def place(self, target: Target) -> str:
        """Return where the ledgers of a target are kept, which no two databases have in common. It may be secret."""


def is_to_be_written(entry: Entry, writer: str, batch: Batch) -> bool:
    """Return whether a batch is to be written: it follows the ledger. False: it is in the sink already.

    :param writer: the id of the claim of the driver that asks.
    :raises SinkRefused: it does not follow.
    """
    if entry.writer != writer:
        raise fenced(entry)
    for begins, ends in zip(batch.begins, batch.ends):
        _check_ends(entry, batch, begins, ends)
    if not entry.query_id:
        return True
    same = (entry.query_id, entry.batch_id) == (batch.query_id, batch.batch_id)
    if same and list(entry.offsets) == list(batch.ends):
        return False
    if len(entry.offsets) != len(batch.begins):
        raise OtherSource(
            f"The query {entry.name} reads {len(batch.begins)} sources, and the sink's rows are made of "
            f"{len(entry.offsets)}.",
            next_step="Give a query with other sources another name, and another table.",
            sources=len(batch.begins),
        )
    # A rewind is an act of a person that the control log has: it alone moves a ledger back.
    goes_back = bool(batch.rewound) and (entry.query_id, entry.batch_id + 1) == (batch.query_id, batch.batch_id)
    for known, begins in zip(entry.offsets, batch.begins):
        _check_source(entry, batch, known, begins, goes_back)
    return True


def fenced(entry: Entry) -> Fenced:
    """Return the error of a driver that is not the one that may write."""
    return Fenced(
        f"{entry.holder} has claimed the ledger of {entry.name} with epoch {entry.epoch}: this driver may write "
        "nothing more.",
        next_step="Nothing, if that driver is to run. Else stop it, and start this one again.",
        epoch=entry.epoch,
        holder=entry.holder,
    )


def _check_ends(entry: Entry, batch: Batch, begins: Position, ends: Position) -> None:
    """Refuse a batch that would move the ledger back: `failOnDataLoss` lets Spark plan one on a topic made anew."""
    if not (is_kafka(begins) and is_kafka(ends)):
        return
    for topic, partition, offset in _offsets(ends):
        start = begins.get(topic, {}).get(partition, 0)
        if offset < start:
            raise OtherSource(
                f"Batch {batch.batch_id} of {entry.name} begins at offset {start} of {topic}, partition {partition}, "
                f"and ends at {offset}: the topic was made anew, or has lost records.",
                next_step="Give the query another name and another checkpoint.",
                topic=topic,
                partition=partition,
            )


def _check_source(entry: Entry, batch: Batch, known: Position, begins: Position, goes_back: bool) -> None:
    if known == begins:
        return
    if not (is_kafka(known) and is_kafka(begins)):
        raise Overlap(
            f"Batch {batch.batch_id} of {entry.name} begins at {_shown(begins)}, and the sink holds what was read "
            f"until {_shown(known)}.",
            next_step=_SAME_PLACE,
            begins=begins,
            known=known,
        )
    for topic, partition, offset in _offsets(known):
        start = begins.get(topic, {}).get(partition)
        where = f"{topic}, partition {partition}"
        if start is None:
            raise OtherSource(
                f"The sink holds rows of {where}, until offset {offset}, and batch {batch.batch_id} of {entry.name} "
                "does not read it.",
                next_step="Read that topic again, or give the query another name and table.",
                topic=topic,
                partition=partition,
            )
        if start > offset:
            raise Gap(
                f"Batch {batch.batch_id} of {entry.name} begins at offset {start} of {where}, and the sink holds it "
                f"until {offset}: {start - offset} offsets would never be written.",
                next_step=_SAME_PLACE,
                topic=topic,
                partition=partition,
                begins=start,
                known=offset,
            )
        if start < offset and not goes_back:
            raise Overlap(
                f"Batch {batch.batch_id} of {entry.name} begins at offset {start} of {where}, and the sink holds it "
                f"until {offset}: {offset - start} offsets would be written twice.",
                next_step=_SAME_PLACE,
                topic=topic,
                partition=partition,
                begins=start,
                known=offset,
            )


_SAME_PLACE = (
    "Start the query on the checkpoint that these rows were written with; or on a new one, with the startingOffsets "
    "that `starting_offsets()` of the sink returns. Where the topic was made anew, give the query another name."
)


def is_kafka(position: Position) -> bool:
    """Whether a position has offsets by topic and partition."""
    return isinstance(position, Mapping) and all(
        isinstance(each, Mapping) and all(isinstance(offset, int) for offset in each.values())
        for each in position.values()
    )


def _offsets(position: Position) -> Iterator[tuple[str, str, int]]:
    for topic, partitions in position.items():
        for partition, offset in partitions.items():
            yield topic, partition, offset


def _shown(position: Position) -> str:
    return "an unknown place" if position is None else f"{position!s:.200}"
