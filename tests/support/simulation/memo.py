"""Makes the simulation fast: what is pure is computed once for all readers of one log.

A record is decoded, checked and folded by the product's code when the first reader meets it; every other reader that
comes from the same state gets the same result. Heartbeats are decoded once, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_stream_provider.control import log as control_log
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState


class _Memo:
    def __init__(self) -> None:
        self.read = Record.read
        self.fold: Callable[..., StreamState] = vars(control_log)["fold"]
        self.follow: Callable[..., StreamState] = vars(control_log)["follow"]
        self.beat = ControlLog.beat
        self.heartbeat = Heartbeat.from_json
        self._records: dict[tuple[int, bytes], Record] = {}
        self._states: dict[tuple[int, int], StreamState] = {}
        # Ids are compared, so what they are of must not be forgotten.
        self._kept: list[StreamState] = []
        self._beats: dict[tuple[bytes, str], Heartbeat] = {}
        self._empty = StreamState()

    def record(self, data: bytes, seq: int) -> Record:
        key = (seq, data)
        found = self._records.get(key)
        if found is None:
            found = self._records[key] = self.read(data, seq)
        return found

    def folded(self, records: Iterable[Record], state: StreamState | None = None) -> StreamState:
        after = self._common(state)
        for record in records:
            after = self._after(after, record, lambda before, one: self.fold([one], before))
        return after

    def followed(self, state: StreamState, record: Record) -> StreamState:
        return self._after(self._common(state), record, self.follow)

    def written(self, incarnation: str, heartbeat: Heartbeat) -> bytes:
        data = heartbeat.to_json()
        if len(self._beats) > 256:
            self._beats.clear()
        self._beats[data, incarnation] = heartbeat
        return data

    def parsed(self, data: bytes, incarnation: str) -> Heartbeat:
        key = (data, incarnation)
        found = self._beats.get(key)
        if found is None:
            found = self._beats[key] = self.heartbeat(data, incarnation)
        return found

    def _common(self, state: StreamState | None) -> StreamState:
        """All that begin with an empty log begin with the same state."""
        return self._empty if state is None or state.seq == 0 else state

    def _after(
        self, state: StreamState, record: Record, apply: Callable[[StreamState, Record], StreamState]
    ) -> StreamState:
        key = (id(state), id(record))
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = apply(state, record)
            self._kept += (state, found)
        return found


@contextmanager
def shared_readings() -> Iterator[None]:
    """Let all readers within share what they read."""
    memo = _Memo()
    here: Any = control_log
    record: Any = Record
    beats: Any = Heartbeat
    read, from_json = Record.__dict__["read"], Heartbeat.__dict__["from_json"]

    def plain_beat(log: ControlLog, incarnation: str, heartbeat: Heartbeat) -> None:
        # The simulated drivers say no secrets. What is stored is read as the heartbeat that it was, unless it is torn.
        log.store.put_heartbeat(incarnation, memo.written(incarnation, heartbeat))

    record.read, beats.from_json = staticmethod(memo.record), staticmethod(memo.parsed)
    here.fold, here.follow = memo.folded, memo.followed
    here.ControlLog.beat = plain_beat
    try:
        yield
    finally:
        record.read, beats.from_json = read, from_json
        here.fold, here.follow, here.ControlLog.beat = memo.fold, memo.follow, memo.beat
