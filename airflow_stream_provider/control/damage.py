"""Find out that a control log cannot be read whole: a record is missing, unreadable, or follows another one.

A reader from before the damage goes by the record as it was. A reader of now must not go by less: it would find another
holder. So no process acts on such a log before a person has restored it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced
from airflow_stream_provider.lifecycle.record import Kind, Record

UNREADABLE = "cannot be read: it is no record, or too large"
MISSING = "is missing, though there were later ones"
LOST = "is missing, though somebody has read it"
OTHER = "is another one"


def check_chain(stream: str, nonce: str, records: Sequence[Record]) -> None:
    """Check that records follow each other, and the record before them.

    Bytes that are no record are carried, as a record that breaks a rule is, when the record after it names them: its
    author read the same bytes, so no reader ever read anything else there. Without such a record after it, it may have
    been damaged after others had read it.

    :param nonce: of the record before the first of them; empty when there is none.
    :param records: without a gap, as far as the log goes or up to one that can be read.
    :raises ControlLogDamaged: they do not.
    """
    for number, record in enumerate(records):
        if record.previous not in ("", nonce):
            raise damaged(stream, record.seq, f"was written after another record {record.seq - 1} than there is now")
        after = records[number + 1] if number + 1 < len(records) else None
        if record.kind == Kind.UNREADABLE and (after is None or after.previous != record.nonce):
            raise damaged(stream, record.seq, UNREADABLE)
        nonce = record.nonce


def readable(data: bytes) -> bool:
    """Whether these bytes are a record."""
    return Record.read(data, 0).kind != Kind.UNREADABLE


def whole_before(read: Callable[[int], bytes | None], link: str, known: int, first: int) -> list[Record]:
    """Return the records from `first` to the one before `known`, or those of them behind the last damaged one.

    :param link: what record `known` names as the nonce of the one before it; empty: none.
    """
    found: list[Record] = []
    for seq in range(known - 1, first - 1, -1):
        data = read(seq)
        record = None if data is None else Record.read(data, seq)
        carried = record is not None and (record.nonce == link or (not link and record.kind != Kind.UNREADABLE))
        if record is None or not carried:
            break
        found.append(record)
        link = record.previous
    return found[::-1]


def damaged(stream: str, seq: int, found: str) -> ControlLogDamaged:
    """Return the error for a record; `found` says what is wrong with it, after its number."""
    return ControlLogDamaged(
        f"Record {seq} of the control log of {stream} {found}. Without it the log means something else.",
        next_step=f"In a control folder restore log/{seq:020d}.json from its back-up: then all goes on. Into a topic "
        "of Kafka nothing can be put back: the stream needs a new control log. (It loses records by retention, an "
        "unclean leader election or a broker's disk; drivers of a topic from before that still write to a new one look "
        "the same.) Delete nothing; see 'A damaged control log' in docs/trouble/damaged_log.md for that, and for a "
        "folder without a back-up.",
        seq=seq,
    )


def replaced(stream: str, seq: int, found: str = OTHER) -> ControlLogReplaced:
    """Return the error for a record that was read, and is missing or another one now."""
    return ControlLogReplaced(
        f"Record {seq} of the control log of {stream}, which was read before, {found} now: the log was put back from a "
        "copy, lost its end, or was made anew.",
        next_step="Make sure that `control` leads to the right folder or topics, and that no driver of the stream "
        "from before runs on; then clear the task. See docs/trouble/damaged_log.md.",
        seq=seq,
    )
