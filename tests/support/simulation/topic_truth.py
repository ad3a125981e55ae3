"""The log in a topic as the order of its messages makes it, in other words than the product's."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.lifecycle.errors import SeqTaken
from airflow_stream_provider.lifecycle.record import Record
from tests.support.simulation.memory_store import MemoryStore

if TYPE_CHECKING:
    from tests.support.simulation.brokers import Brokers


class TopicTruth(MemoryStore):
    """What the committed messages say; written to by those who know the form of messages, and no rules."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__()
        self._brokers = brokers
        self._counts: dict[str, int] = {}

    def take(self, message: Message) -> bool:
        """Take in the next committed message; return whether it changes anything."""
        kind, _, rest = (message.key or b"").decode().partition("/")
        if message.value is None:
            return kind == "heartbeat" and self.beats.pop(rest, None) is not None
        if "read-to" not in message.headers:
            return False
        if kind == "record":
            seq = int(rest.partition("/")[0])
            return self.stored.setdefault(seq, message.value) is message.value
        if kind == "heartbeat":
            count = int(message.headers["count"])
            if rest in self.beats and count < self._counts[rest]:
                return False
            self.beats[rest], self._counts[rest] = message.value, count
        if kind == "state":
            self.saved = message.value
        return True

    @property
    def last(self) -> int:
        """The number of the last record before which none is missing."""
        return next(seq for seq in itertools.count() if seq + 1 not in self.stored)

    def nonce_of(self, seq: int) -> str:
        """Return a record's nonce; empty if there is none."""
        return Record.read(self.stored[seq], seq).nonce if seq in self.stored else ""

    def create(self, seq: int, data: bytes) -> None:
        if seq in self.stored:
            raise SeqTaken(f"{seq} is taken.")
        self._append(f"record/{seq}/{self._brokers.rng.getrandbits(128):032x}", data)

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        self._append(f"heartbeat/{incarnation}", data, {"count": str(self._counts.get(incarnation, 0)).encode()})

    def put_saved_state(self, data: bytes) -> None:
        self._append("state", data)

    def _append(self, key: str, data: bytes, headers: dict[str, bytes] | None = None) -> None:
        read_to = f"{self.last} {self.nonce_of(self.last)} {self.nonce_of(1)}".encode()
        self._brokers.append(key.encode(), data, {"read-to": read_to, **(headers or {})})
        self._brokers.commit()
