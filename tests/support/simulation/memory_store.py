"""A control store in memory."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.lifecycle.errors import SeqTaken


class LogStore:
    """The parts of a `Store` beside the log; the simulation does without them."""

    folder = Path("/nowhere")

    def origin(self) -> str:
        raise NotImplementedError

    def put_topic_ids(self, data: bytes) -> None:
        raise NotImplementedError

    def topic_ids(self) -> bytes | None:
        raise NotImplementedError

    def put_saved_state(self, data: bytes) -> None:
        raise NotImplementedError

    def saved_state(self) -> bytes | None:
        raise NotImplementedError


class MemoryStore(LogStore):
    """A store in memory that keeps the promise of `Store`."""

    def __init__(self) -> None:
        self.stored: dict[int, bytes] = {}
        self.beats: dict[str, bytes] = {}
        self.saved: bytes | None = None

    def create(self, seq: int, data: bytes) -> None:
        if seq in self.stored:
            raise SeqTaken(f"{seq} is taken.")
        self.stored[seq] = data

    def read(self, seq: int) -> bytes | None:
        return self.stored.get(seq)

    def next_number(self, seq: int) -> int | None:
        return min((number for number in self.stored if number > seq), default=None)

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        self.beats[incarnation] = data

    def heartbeat(self, incarnation: str) -> bytes | None:
        return self.beats.get(incarnation)

    def heartbeats(self) -> list[str]:
        return sorted(self.beats)

    def put_saved_state(self, data: bytes) -> None:
        self.saved = data

    def saved_state(self) -> bytes | None:
        return self.saved
