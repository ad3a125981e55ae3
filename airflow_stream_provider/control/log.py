"""The numbered control log of one stream: append a record if its number is free, read records, fold them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged, SeqTaken
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.state import StreamState

_logger = logging.getLogger(__name__)


class ControlLog:
    """One stream's control log. It keeps the folded state and reads only new records. Not thread-safe.

    :param store: where the log is stored.
    :param stream: name of the stream.
    """

    def __init__(self, store: Store, stream: str) -> None:
        self.store = store
        self.stream = stream
        self.state = StreamState()
        self._damaged: set[str] = set()

    def records(self, from_seq: int = 1) -> list[Record]:
        """Return all records from a number on, oldest first.

        :raises ControlUnavailable: the store cannot be read now.
        """
        found: list[Record] = []
        while (data := self.store.read(from_seq + len(found))) is not None:
            found.append(Record.from_json(data, from_seq + len(found)))
        return found

    def refresh(self) -> StreamState:
        """Read the new records and return the folded state.

        :raises ControlUnavailable: the store cannot be read now.
        """
        news = self.records(self.state.seq + 1)
        if news:
            self.state = fold(news, self.state)
        return self.state

    def append(self, record: Record, expected_seq: int) -> Record:
        """Write a record as the one that follows `expected_seq`, and return it with its number.

        :raises RuleBroken: the record may not follow the present state. Nothing was written.
        :raises SeqTaken: another writer took that number first. Call `refresh` and decide again.
        :raises ControlUnavailable: the record was not written, or that is not known. After an error the number is read
            back, and the write counts only if the nonce is ours. Until a `refresh` shows the record, treat it as not
            written.
        """
        if self.state.seq < expected_seq:
            self.refresh()
        if self.state.seq != expected_seq:
            raise _taken(expected_seq + 1)
        check(self.state, record)
        numbered = record.numbered(expected_seq + 1)
        # Before it is written: a record that cannot be folded would make the whole log unreadable.
        state = fold([numbered], self.state)
        try:
            self.store.create(numbered.seq, numbered.to_json())
        except (SeqTaken, ControlUnavailable) as error:
            # After a time-out or a lost answer the record may exist: the answer was lost, or the store tried twice.
            written = self.store.read(numbered.seq)
            if written is None:
                raise ControlUnavailable(
                    f"Record {numbered.seq} may or may not have been written: {error.message}",
                    next_step="Nothing to do: it counts as not written until it is read.",
                    seq=numbered.seq,
                ) from error
            if Record.from_json(written, numbered.seq).nonce != record.nonce:
                raise _taken(numbered.seq) from None
        self.state = state
        return numbered

    def propose(self, build: Callable[[StreamState], Record | None]) -> StreamState:
        """Append the record that `build` makes from the newest state; if another writer is faster, try again.

        :param build: returns the record, or None if there is nothing to do in this state.
        :return: the state after the last read or write.
        :raises RuleBroken, ControlUnavailable: as `append`.
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
        """Write an incarnation's heartbeat, in place of the one before."""
        self.store.put_heartbeat(incarnation, heartbeat.to_json())

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

    def heartbeats(self, deployment: str = "") -> dict[str, Heartbeat]:
        """Return the heartbeats that can be read, by incarnation.

        :param deployment: whose; default: all.
        """
        names = [name for name in self.store.heartbeats() if deployment in ("", deployment_of(name))]
        found = ((name, self.heartbeat(name)) for name in names)
        return {name: beat for name, beat in found if beat is not None}


def make_record(kind: str, by: str, **fields: Any) -> Record:
    """Return a new record with the present time, not yet numbered.

    :param kind: kind of the record, such as ``requested``.
    :param by: who writes it.
    :param fields: the fields of this kind.
    """
    return Record(kind=kind, fields=fields, by=by, at=time.time())


def _taken(seq: int) -> SeqTaken:
    return SeqTaken(
        f"Record {seq} was written by someone else.", next_step="Read the log again and decide again.", seq=seq
    )
