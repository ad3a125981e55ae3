"""A topic in memory, for the contract of stores; and what all topics have in common there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.control.topic_index import READ_TO, ReadTo, number_of, record_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable
from tests.support.race import contend
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.store_contract.place import log_of
from tests.support.store_contract.troubles import Troubles


def gap(write: Callable[[bytes, bytes, Mapping[str, bytes]], object], first: str, seq: int, data: bytes) -> None:
    """Write a record as one that has read the record before it, which the topic does not have.

    :param first: nonce of the first record.
    """
    write(record_key(seq).encode(), data, {READ_TO: ReadTo(seq - 1, "f" * 32, first).to_header()})


def copies(messages: Sequence[Message], seq: int) -> int:
    """Return how many of the messages are a record of this number, whether it counts or not."""
    return sum(number_of(message.key) == seq for message in messages)


class Brokers(SimulatedLog):
    """What brokers have under one name, of which they can lose a part, and which may be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.first = 0
        self.away = False

    def lose_end(self, end: int) -> None:
        """Lose the messages from an offset on."""
        self.messages, self.end = [each for each in self.messages if each.offset < end], end


class SimulatedWay(Troubles, SimulatedTopic):
    """One process's client of a simulated topic; implements `Way`."""

    def __init__(self, brokers: Brokers) -> None:
        Troubles.__init__(self)
        SimulatedTopic.__init__(self, brokers)
        self._brokers = brokers
        self.store = TopicStore(self, "orders")
        self._end: int | None = None

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        self._reach()
        if self._end is not None:
            raise ControlUnavailable("It leads no more, and too few replicas follow it.")
        self._arrive()
        time.sleep(self._seconds)
        with self._brokers.lock:
            offset = super().write(key, value, headers)
        if self._answer_is_lost():
            raise ControlUnavailable("The answer was lost.")
        return offset

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        self._reach()
        if offset < self._brokers.first:
            raise ControlLogDamaged("It does not have this offset any more.")
        with self._brokers.lock:
            found = super().read(offset, size)
        if self._end is None:
            return found
        messages = tuple(each for each in found.messages if each.offset < self._end)
        return Fetched(messages, min(found.next_offset, self._end), self._end)

    def _reach(self) -> None:
        self._answers.wait()
        if self._away or self._brokers.away:
            raise ControlUnavailable("It does not answer.")

    @contextmanager
    def stale(self) -> Iterator[None]:
        """It asks a broker that leads no more, and does not know it."""
        self._end = self._log.end
        yield
        self._end = None


class SimulatedPlace:
    """A topic in memory; implements `Place`."""

    cannot: Mapping[str, str] = {"full": "memory has no size; the same error is that of an outage"}

    def __init__(self) -> None:
        self._log = Brokers()

    def open(self) -> SimulatedWay:
        return SimulatedWay(self._log)

    def close(self) -> None:
        """Nothing is open."""

    def copies(self, seq: int) -> int:
        return copies(self._log.messages, seq)

    def race(self, writers: int, wins: int) -> list[dict[str, Any]]:
        """In threads, as the topic is in this process."""

        def one(number: int) -> dict[str, Any]:
            return contend(log_of(self.open()), f"writer-{number}", wins, writers * wins)

        with ThreadPoolExecutor(writers) as pool:
            return list(pool.map(one, range(writers)))

    def gap(self, seq: int, data: bytes) -> None:
        gap(self._log.append, self.open().store.origin(), seq, data)

    def lose_beginning(self) -> None:
        self._log.first = 1
        del self._log.messages[0]

    def lose_end(self) -> None:
        self._log.lose_end(max(each.offset for each in self._log.messages if number_of(each.key)))

    def copy(self) -> list[Message]:
        return list(self._log.messages)

    def put_back(self, copied: list[Message]) -> None:
        self._log.begin()
        for message in copied:
            self._log.append(message.key or b"", message.value, message.headers)

    def make_anew(self) -> None:
        self._log.begin()

    @contextmanager
    def away(self) -> Iterator[None]:
        self._log.away = True
        yield
        self._log.away = False

    def full(self) -> AbstractContextManager[None]:
        raise NotImplementedError(self.cannot["full"])
