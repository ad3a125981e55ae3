"""The numbered control log of one stream: append a record if its number is free, read records, fold them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from airflow_stream_provider.control.damage import (
    MISSING,
    OTHER,
    UNREADABLE,
    check_chain,
    damaged,
    readable,
    replaced,
    whole_before,
)
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.environment import Environment
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged, SeqTaken
from airflow_stream_provider.lifecycle.fold import fold, follow
from airflow_stream_provider.lifecycle.formats import check_format
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.saved_state import dump, load
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import redact, redact_within

# The fields of records that quote what a script, Spark or a person said. The parts of a release must stay as they are:
# its hash is over them, and they were checked before.
_SAID = ("reason", "error", "evidence", "rehearsal")


def redacted_record(record: Record) -> Record:
    """Return the record without secrets in what it quotes."""
    fields = {name: redact_within(value) if name in _SAID else value for name, value in record.fields.items()}
    return replace(record, fields=fields)


def redacted_heartbeat(heartbeat: Heartbeat) -> Heartbeat:
    """Return the heartbeat without secrets in what it quotes."""
    return replace(
        heartbeat,
        message=redact(heartbeat.message),
        rewind=redact(heartbeat.rewind),
        rehearsal=redact_within(heartbeat.rehearsal),
        offsets_group=replace(heartbeat.offsets_group, problem=redact(heartbeat.offsets_group.problem)),
    )


_logger = logging.getLogger(__name__)

# `history` goes back so far.
HISTORY = 2000
# The folded state is saved when the log has grown by so many records.
SAVE_EVERY = 200
# Read and folded at a time, so that a long log is not in memory as a whole.
_CHUNK = 1000


class ControlLog:
    """One stream's control log. It keeps the folded state and reads only new records. Not thread-safe.

    The first read starts from the saved state, when there is one that fits the log, else from the first record.

    :param store: where the log is stored.
    :param stream: name of the stream.
    """

    def __init__(self, store: Store, stream: str) -> None:
        self.store = store
        self.stream = stream
        self.state = StreamState()
        self._damaged: set[str] = set()
        # The last record that was read or written, as it is stored.
        self._tail: bytes | None = None
        self._recent: list[Record] = []
        self._saved = 0
        # Whether it is known that no record was missing when the log was opened, and the last one of the saved state.
        self._whole = False
        self._known = 0

    def another(self) -> ControlLog:
        """Return a reader of this log for another thread, which goes on from what this one has read."""
        other = copy(self)
        other._damaged, other._recent = set(self._damaged), list(self._recent)
        return other

    def records(self, from_seq: int = 1) -> list[Record]:
        """Return all records from a number on, oldest first, also those that are illegal or unreadable.

        :raises ControlUnavailable: the store cannot be read now.
        """
        return [Record.read(data, seq) for seq, data in self._stored(from_seq)]

    def history(self, last: int | None = None) -> tuple[Record, ...]:
        """Return the legal ones among the last records up to that of `state`, oldest first.

        A record from before the saved state may be damaged: then the records go back to there only.

        :param last: among so many; default and most: HISTORY. Each that was not read yet may be a file.
        :raises ControlUnavailable: the store cannot be read now.
        :raises ControlLogReplaced: the log is not the one that was read before.
        """
        state = self.state
        first = max(1, state.seq - min(last or HISTORY, HISTORY) + 1)
        known = self._recent[0].seq if self._recent else state.seq + 1
        if first < known:
            link = self._recent[0].previous if self._recent else state.nonce
            self._recent[:0] = whole_before(self.store.read, link, known, first)
            self._verify()
        illegal = {record.seq for record in state.illegal}
        if state.illegal_count > len(state.illegal):
            first = max(first, state.illegal[0].seq)  # of records before it, it is not known which are illegal
        return tuple(record for record in self._recent if record.seq >= first and record.seq not in illegal)

    def environment(self, incarnation: str) -> Environment:
        """Return what a driver's `standby` record says of its surroundings; nothing is known of an older driver's.

        :raises ControlUnavailable: the store cannot be read now.
        """
        found = self.state.incarnations.get(incarnation)
        data = None if found is None else self.store.read(found.announced)
        record = None if found is None or data is None else Record.read(data, found.announced)
        return Environment.from_json(None if record is None else record.get("environment"))

    def refresh(self) -> StreamState:
        """Read the new records and return the folded state.

        :raises ControlUnavailable: the store cannot be read now.
        :raises ControlLogDamaged: a record is missing or damaged, of those after the state that was known before.
        :raises ControlLogReplaced: the log is not the one that was read before.
        """
        if not self.state.seq:
            self._restore()
        while True:
            stored = self._next()
            # After the read: had the log been replaced before it, the old tail would be gone now.
            self._verify()
            if stored:
                news = [Record.read(data, seq) for seq, data in stored]
                check_chain(self.stream, self.state.nonce, news)
                self._keep(fold(news, self.state), news, stored[-1][1])
            if len(stored) < _CHUNK and self._ends_here():
                return self.state

    def append(self, record: Record, expected_seq: int) -> Record:
        """Write a record as the one that follows `expected_seq`, and return it with its number.

        Secrets in what it quotes are redacted.

        :raises RuleBroken: the record may not follow the present state, or an older driver would not know its kind.
            Nothing was written.
        :raises SeqTaken: another writer took that number first. Call `refresh` and decide again.
        :raises ControlUnavailable: the record was not written, or that is not known. After an error the number is read
            back, and the write counts only if the nonce is ours. Until a `refresh` shows the record, treat it as not
            written.
        :raises ControlLogDamaged: a record is missing or damaged. One that was written counts once that is mended.
        :raises ControlLogReplaced: the log is not the one that was read before. A record that was written is in the way
            of readers of the log that is there now.
        """
        if self.state.seq < expected_seq or not self._whole:
            self.refresh()
        if self.state.seq != expected_seq:
            raise _taken(expected_seq + 1)
        self._verify()
        if self.store.read(expected_seq + 2) is not None and self.store.read(expected_seq + 1) is None:
            raise damaged(self.stream, expected_seq + 1, MISSING)
        numbered = redacted_record(record).numbered(expected_seq + 1, self.state.nonce)
        data = numbered.to_json()
        # The check is of the record as every reader will read it.
        state = follow(self.state, Record.read(data, numbered.seq))
        check_format(self.state, numbered)
        try:
            self.store.create(numbered.seq, data)
        except (SeqTaken, ControlUnavailable) as error:
            # After a time-out or a lost answer the record may exist: the answer was lost, or the store tried twice.
            written = self.store.read(numbered.seq)
            if written is None:
                raise ControlUnavailable(
                    f"Record {numbered.seq} may or may not have been written: {error.message}",
                    next_step="Nothing to do: it counts as not written until it is read.",
                    seq=numbered.seq,
                ) from error
            if Record.read(written, numbered.seq).nonce != record.nonce:
                raise _taken(numbered.seq) from None
        self._verify()
        self._keep(state, [numbered], data)
        return numbered

    def save(self) -> None:
        """Save the folded state when the log has grown enough since the last time; call it where nothing waits for it.

        :raises ControlUnavailable: it was not saved; nothing is lost but time.
        """
        if self.state.seq - self._saved >= SAVE_EVERY:
            self.store.put_saved_state(dump(self.state))
            self._saved = self.state.seq

    def _stored(self, seq: int) -> Iterator[tuple[int, bytes]]:
        while (data := self.store.read(seq)) is not None:
            yield seq, data
            seq += 1

    def _next(self) -> list[tuple[int, bytes]]:
        """Return the next records to fold: many at a time, and the last one of them can be read if there is such."""
        stored: list[tuple[int, bytes]] = []
        for each in self._stored(self.state.seq + 1):
            stored.append(each)
            if len(stored) >= _CHUNK and readable(each[1]):
                break
        return stored

    def _ends_here(self) -> bool:
        """Whether the log has no record behind those that were read; looked for once, when it is opened.

        :raises ControlLogDamaged: it has, and one before it is missing; or the saved state knew of more records.
        """
        if self._whole:
            return True
        seq = self.state.seq + 1
        later = self.store.next_number(self.state.seq)
        if later is not None and self.store.read(seq) is not None:
            return False  # written just now
        if later is not None or self._known > self.state.seq:
            raise damaged(self.stream, seq, MISSING)
        self._whole = True
        return True

    def _keep(self, state: StreamState, news: list[Record], tail: bytes) -> None:
        self.state, self._tail = state, tail
        self._recent = [*self._recent, *news][-HISTORY:]

    def _restore(self) -> None:
        """Start from the saved state, if the record that it was made after is in this log."""
        try:
            data = self.store.saved_state()
        except Damaged:
            return
        found = None if data is None else load(data)
        if found is None or not found.seq:
            return
        self._known = found.seq
        tail = self.store.read(found.seq)
        if tail is not None and Record.read(tail, found.seq).nonce == found.nonce:
            self.state, self._tail, self._saved = found, tail, found.seq

    def _verify(self) -> None:
        """Check that the last record that was read is still where it was.

        :raises ControlLogDamaged: it cannot be read any more, or is missing before another one: no process goes on
            there.
        :raises ControlLogReplaced: the log ends before it, or has another one there, or goes on without it.
        """
        seq = self.state.seq
        tail = self.store.read(seq) if seq else None
        if tail == self._tail:
            return
        after = self.store.read(seq + 1)
        if tail is None and after is not None:
            raise damaged(self.stream, seq, MISSING)
        goes_on = None if after is None else Record.read(after, seq + 1).previous
        if tail is not None and not readable(tail) and goes_on != Record.read(tail, seq).nonce:
            raise damaged(self.stream, seq, UNREADABLE)
        raise replaced(self.stream, seq, "is missing" if tail is None else OTHER)

    def propose(self, build: Callable[[StreamState], Record | None]) -> StreamState:
        """Append the record that `build` makes from the newest state; if another writer is faster, try again.

        :param build: returns the record, or None if there is nothing to do in this state.
        :return: the state after the last read or write.
        :raises RuleBroken, ControlUnavailable, ControlLogReplaced: as `append`.
        """
        while True:
            record = build(self.refresh())
            if record is None:
                return self.state
            try:
                self.append(record, self.state.seq)
            except SeqTaken:
                continue
            return self.state

    def beat(self, incarnation: str, heartbeat: Heartbeat) -> None:
        """Write an incarnation's heartbeat, in place of the one before; secrets in what it says are redacted."""
        self.store.put_heartbeat(incarnation, redacted_heartbeat(heartbeat).to_json())

    def heartbeat(self, incarnation: str) -> Heartbeat | None:
        """Return an incarnation's heartbeat, or None if it never wrote one or it is damaged, which is logged once.

        A driver replaces its heartbeat every second, so a damaged one is a dead driver's, or is mended soon: to an
        observer both are a driver that gives no sign of life.

        :raises ControlUnavailable: the store cannot be read now.
        """
        try:
            data = self.store.heartbeat(incarnation)
            beat = None if data is None else Heartbeat.from_json(data, incarnation)
        except Damaged as error:
            if incarnation not in self._damaged:
                self._damaged.add(incarnation)
                _logger.warning("A heartbeat counts as unknown: %s", error)
            return None
        self._damaged.discard(incarnation)
        return beat

    def heartbeats(self, deployment: str | None = None) -> dict[str, Heartbeat]:
        """Return the heartbeats that can be read, by incarnation; of one deployment, or of all."""
        names = (name for name in self.store.heartbeats() if deployment in (None, deployment_of(name)))
        found = ((name, self.heartbeat(name)) for name in names)
        return {name: beat for name, beat in found if beat is not None}


def make_record(kind: str, by: str, **fields: Any) -> Record:
    """Return a new record with the present time, not yet numbered.

    :param kind: kind of the record, such as ``requested``.
    :param by: the author.
    :param fields: the fields of this kind.
    """
    return Record(kind=kind, fields=fields, by=by, at=time.time())


def _taken(seq: int) -> SeqTaken:
    return SeqTaken(
        f"Record {seq} was written by someone else.", next_step="Read the log again and decide again.", seq=seq
    )
