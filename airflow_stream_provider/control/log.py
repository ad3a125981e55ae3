"""The numbered log of one stream: append if nobody else did, read, fold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SeqTaken
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.state import StreamState


class ControlLog:
    """A view of one stream's log. It keeps the folded state and reads only what is new; not thread-safe."""

    def __init__(self, store: Store, stream: str) -> None:
        self.store = store
        self.stream = stream
        self.state = StreamState()

    def records(self, from_seq: int = 1) -> list[Record]:
        """Return all records from this number on, oldest first."""
        found: list[Record] = []
        while (data := self.store.read(from_seq + len(found))) is not None:
            found.append(Record.from_json(data, from_seq + len(found)))
        return found

    def refresh(self) -> StreamState:
        """Read what is new and return the state; raise ControlUnavailable when that cannot be known now."""
        news = self.records(self.state.seq + 1)
        if news:
            self.state = fold(news, self.state)
        return self.state

    def append(self, record: Record, expected_seq: int) -> Record:
        """Write `record` as the one that follows `expected_seq`, and return it with its number.

        :raises RuleBroken: it may not follow the present state; nothing was written.
        :raises SeqTaken: somebody else wrote that number first; `refresh` and decide again.
        :raises ControlUnavailable: not written, or not known. The number was read back where possible, and only a
            record with our own nonce counts; until a `refresh` shows it, act as if it had not been written.
        """
        if self.state.seq < expected_seq:
            self.refresh()
        if self.state.seq != expected_seq:
            raise _taken(expected_seq + 1)
        check(self.state, record)
        numbered = record.numbered(expected_seq + 1)
        try:
            self.store.create(numbered.seq, numbered.to_json())
        except (SeqTaken, ControlUnavailable) as error:
            # A time-out or a lost answer may hide a success, and a retry inside the store our own first try.
            written = self.store.read(numbered.seq)
            if written is None:
                raise ControlUnavailable(
                    f"Whether record {numbered.seq} was written is not known: {error.message}",
                    next_step="Nothing: it counts as not written until it is read.",
                    seq=numbered.seq,
                ) from error
            if Record.from_json(written, numbered.seq).nonce != record.nonce:
                raise _taken(numbered.seq) from None
        self.state = fold([numbered], self.state)
        return numbered

    def propose(self, build: Callable[[StreamState], Record | None]) -> StreamState:
        """Append what `build` makes of the newest state, again and again until nobody comes between.

        `build` returns None when there is nothing left to do (it was done already, or must not be done any more).
        Returns the state after that. Raises what `append` raises, but for SeqTaken.
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
        """Replace the incarnation's heartbeat."""
        self.store.put_heartbeat(incarnation, heartbeat.to_json())

    def heartbeat(self, incarnation: str) -> Heartbeat | None:
        """Return the incarnation's heartbeat, or None when it never wrote one.

        :raises StreamError: it is damaged. :raises ControlUnavailable: it cannot be read now.
        """
        data = self.store.heartbeat(incarnation)
        return None if data is None else Heartbeat.from_json(data, incarnation)

    def heartbeats(self) -> dict[str, Heartbeat]:
        """Return every heartbeat by incarnation."""
        found = ((name, self.heartbeat(name)) for name in self.store.heartbeats())
        return {name: beat for name, beat in found if beat is not None}


def make_record(kind: str, by: str, **fields: Any) -> Record:
    """Return a new record of this kind, dated now."""
    return Record(kind=kind, fields=fields, by=by, at=time.time())


def _taken(seq: int) -> SeqTaken:
    return SeqTaken(f"Record {seq} is taken.", next_step="Read the log again.", seq=seq)
