"""Read the ledger that a sink keeps in its database: by an Airflow connection, for streams and any other job."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.checkpoint import merged
from airflow_stream_provider.checkpoint.logs import KafkaOffsets, kafka_offsets
from airflow_stream_provider.hooks.connections import database_hook
from airflow_stream_provider.lag.committed_offsets import WINDOW, Committed
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.planning.steps import Refusal

_ROWS = (
    "select query, epoch, holder, query_id, batch_id, offsets, l.rows, claimed_at, written_at from stream_ledger l "
    "where stream = %s order by query"
)
_HISTORY = (
    "select epoch, holder, query_id, batch_id, begins, ends, h.rows, written_at from stream_ledger_history h "
    "where stream = %s and query = %s order by seq desc limit {}"
)


# A driver claims the rows of its queries with their first batches in its hold. Refused, they have the next hold, whose
# driver claims them as from any other.
_CLAIMED = "select query_id from stream_ledger where stream = %s and control = %s and hold in (%s, %s)"
_REFUSE = (
    "update stream_ledger set epoch = epoch + 1, writer = %s, holder = %s, hold = %s, claimed_at = current_timestamp "
    "where stream = %s and control = %s and hold < %s"
)


@dataclass(frozen=True)
class LedgerBatch:
    """A batch that a sink has written; times are seconds since 1970.

    :param begins: where it begins, by source, as Spark writes it; None of a source: Spark did not say.
    :param ends: where it ends, by source.
    """

    epoch: int
    holder: str
    query_id: str
    batch_id: int
    begins: Sequence[Any]
    ends: Sequence[Any]
    rows: int
    written_at: float


@dataclass(frozen=True)
class LedgerRow:
    """The row of one query in a ledger; times are seconds since 1970.

    :param epoch: grows with each claim.
    :param holder: the driver that claimed it last, and alone may write.
    :param query_id: Spark's id of the query, which its checkpoint keeps; empty: nothing was written.
    :param batch_id: the last batch; -1: nothing was written.
    :param offsets: where that ends, by source, as Spark writes it.
    :param rows: of the last batch.
    :param history: the last batches, the newest first.
    """

    stream: str
    query: str
    epoch: int
    holder: str
    query_id: str
    batch_id: int
    offsets: Sequence[Any]
    rows: int
    claimed_at: float
    written_at: float | None
    history: Sequence[LedgerBatch] = ()

    @property
    def kafka(self) -> KafkaOffsets:
        """The offsets of its Kafka sources."""
        return kafka_of(self.offsets)

    def to_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        return asdict(self)


class LedgerUnread(StreamError):
    """The database of an Airflow connection, or the ledger in it, cannot be read; `kind`: type of the error."""


def read_ledger(conn_id: str, stream: str, last: int = WINDOW) -> list[LedgerRow]:
    """Return the rows of a stream, or of a plain job by the name that it has given.

    :param conn_id: Airflow connection of the database; its hook is one of the provider common.sql.
    :param last: batches of the history of each query.
    :raises ConnectionUnavailable: the connection cannot be read.
    :raises LedgerUnread: the database does not answer, has no ledger, or none of this stream.
    """
    found = ledger_rows(conn_id, stream, last)
    if not found:
        raise LedgerUnread(
            f"The database of the connection {conn_id!r} has no ledger of {stream}.",
            next_step="Name the stream as its sink does: by `stream=` in exactly_once(), or the stream's own name.",
            kind="",
        )
    return found


def ledger_rows(conn_id: str, stream: str, last: int = WINDOW) -> list[LedgerRow]:
    """Return the same, empty where the ledger has none of this stream.

    :raises ConnectionUnavailable: the connection cannot be read.
    :raises LedgerUnread: the database does not answer, or has no ledger.
    """
    try:
        hook = database_hook(conn_id)
        rows = hook.get_records(_ROWS, parameters=(stream,))
        return [_row(stream, row, hook.get_records(_HISTORY.format(int(last)), (stream, row[0]))) for row in rows]
    except ConnectionUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - each database has errors of its own
        # Its text may name user and host.
        kind = type(error).__name__
        raise LedgerUnread(
            f"The ledger of {stream} cannot be read with the connection {conn_id!r} ({kind}).",
            next_step="See that Airflow's provider of this kind of connection is installed, that it names the sink's "
            "database, and that its user may read stream_ledger and stream_ledger_history there.",
            kind=kind,
        ) from None


def refuse_writer(refusal: Refusal, stream: str, control: str) -> str:
    """Have the ledger refuse a driver's batches from now on; return why it cannot refuse all, or an empty text.

    It then refuses none. A transaction that the driver has begun is waited for.

    :param control: the id of the stream's control log.
    :raises ConnectionUnavailable: the connection cannot be read.
    :raises LedgerUnread: the database does not answer, or this user may not write the ledger.
    """
    later, who = refusal.epoch + 1, f"nobody: {refusal.incarnation} is refused"
    try:
        hook = database_hook(refusal.ledger)
        rows = hook.get_records(_CLAIMED, parameters=(stream, control, refusal.epoch, later))
        others = set(refusal.queries) - {query_id for (query_id,) in rows}
        if others:
            return f"It has written no batch of {len(others)} of its {len(refusal.queries)} queries by the ledger."
        hook.run(_REFUSE, parameters=(str(uuid.uuid4()), who, later, stream, control, later))
    except ConnectionUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - each database has errors of its own
        kind = type(error).__name__
        raise LedgerUnread(
            f"The ledger of {stream} cannot be written with the connection {refusal.ledger!r} ({kind}).",
            next_step="Let its user read and update the table stream_ledger.",
            kind=kind,
        ) from None
    return ""


def committed_by_ledger(rows: Sequence[LedgerRow]) -> list[Committed]:
    """Return the offsets that a sink holds, as those of a checkpoint are returned."""
    return [_committed(row) for row in rows]


def by_ledger(rows: Sequence[LedgerRow], checkpoints: Sequence[Committed]) -> list[Committed]:
    """Return how far the queries of a stream are: by the ledger of its sink, where that has the query.

    :param rows: of the stream.
    :param checkpoints: how far they are by their checkpoints, which say all else; read before the ledger.
    """
    found: dict[str, Committed] = {}
    # A query may have two sinks: the one that has fewer batches counts.
    for each in sorted(committed_by_ledger(rows), key=lambda one: -(one.batch or 0)):
        found[each.id] = each
    found.pop("", None)  # claimed, and without a batch
    if not checkpoints:  # the stream has never run, and a job of its name may have
        return list(found.values())
    return [_at(each, found[each.id]) if each.id in found else each for each in checkpoints]


def difference(row: LedgerRow, checkpoint: Committed) -> str:
    """Return how a ledger and the checkpoint of the same query differ, as a sentence; empty: they agree.

    :param checkpoint: read before the ledger, as that is the first of the two to move.
    """
    if checkpoint.problem or row.kafka == checkpoint.offsets:
        return checkpoint.problem
    if row.batch_id > (-1 if checkpoint.batch is None else checkpoint.batch):
        return f"The sink has batch {row.batch_id} already, the checkpoint batch {checkpoint.batch}: that is right."
    for topic, parts in sorted(row.kafka.items()):
        for partition, offset in sorted(parts.items()):
            other = checkpoint.offsets.get(topic, {}).get(partition)
            if other != offset:
                return (
                    f"The sink holds {topic}, partition {partition}, until offset {offset} (batch {row.batch_id}), and "
                    f"the checkpoint has committed it until {'nothing' if other is None else other} (batch "
                    f"{checkpoint.batch}): the next batch is refused."
                )
    return "The checkpoint has partitions that the sink does not hold."


def kafka_of(offsets: Sequence[Any]) -> KafkaOffsets:
    """Return the Kafka offsets of some sources, as Spark writes them."""
    return merged([kafka_offsets(json.dumps(source)) for source in offsets])


def unanswered(conn_id: str, stream: str) -> LedgerUnread:
    """Return the error of a database that has not answered in time."""
    return LedgerUnread(
        f"The database of the connection {conn_id!r}, with the ledger of {stream}, does not answer.",
        next_step="See whether it runs, and can be reached from Airflow's workers.",
        kind="",
    )


def _at(checkpoint: Committed, ledger: Committed) -> Committed:
    # A topic that no batch has read yet is in neither, or without partitions in the checkpoint's.
    offsets = {**{topic: {} for topic in checkpoint.offsets}, **ledger.offsets}
    return replace(checkpoint, offsets=offsets, window=ledger.window, batch=ledger.batch, problem="")


def _committed(row: LedgerRow) -> Committed:
    if not row.query_id:
        return Committed(row.query, problem=f"The ledger of {row.stream}/{row.query} has no batch yet.")
    if not row.kafka:
        return Committed(row.query, problem=f"The rows of {row.stream}/{row.query} are not made of Kafka records.")
    window = tuple((batch.written_at, kafka_of(batch.ends)) for batch in reversed(row.history))
    return Committed(row.query, row.kafka, window, row.batch_id, id=row.query_id)


def _row(stream: str, row: Sequence[Any], history: Sequence[Sequence[Any]]) -> LedgerRow:
    query, epoch, holder, query_id, batch_id, offsets, rows, claimed_at, written_at = row
    return LedgerRow(
        stream,
        query,
        int(epoch),
        holder,
        query_id,
        int(batch_id),
        _json(offsets),
        int(rows),
        _seconds(claimed_at),
        _seconds(written_at) if written_at else None,
        [_batch(each) for each in history],
    )


def _batch(row: Sequence[Any]) -> LedgerBatch:
    epoch, holder, query_id, batch_id, begins, ends, rows, written_at = row
    return LedgerBatch(
        int(epoch), holder, query_id, int(batch_id), _json(begins), _json(ends), int(rows), _seconds(written_at)
    )


def _json(value: Any) -> Any:
    # Some drivers return JSON as text.
    return json.loads(value) if isinstance(value, str | bytes) else value


def _seconds(at: datetime) -> float:
    # A database without zones keeps UTC.
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
