"""A control topic in memory, for histories that no broker would produce in a test's time. No stand-in for a broker.

It keeps offsets and order as Kafka does, and loses what compaction removes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from airflow_stream_provider.control.topic import READ_BYTES, Fetched, Message
from airflow_stream_provider.control.topic_reader import NEAR_BYTES
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced


class SimulatedLog:
    """What brokers have under one name."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Make the topic anew."""
        self.id = uuid.uuid4().hex
        self.messages: list[Message] = []
        self.end = 0

    def append(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Append a message and return its offset."""
        self.messages.append(Message(self.end, key, value, dict(headers), float(self.end)))
        self.end += 1
        return self.end - 1

    def compact(self, up_to: int, *, tombstones: bool) -> None:
        """Remove what is superseded among the messages before an offset; and tombstones, which are old then."""
        last = {message.key: message.offset for message in self.messages if message.offset < up_to}
        self.messages = [
            message
            for message in self.messages
            if message.offset >= up_to
            or (last[message.key] == message.offset and not (tombstones and message.value is None))
        ]


class SimulatedTopic:
    """A client of it; implements `Topic`."""

    name = "the simulated topic"

    def __init__(self, log: SimulatedLog) -> None:
        self._log = log
        self._id = log.id
        self.read_messages = 0

    def topic_id(self) -> str:
        """Return the id of the topic that was opened."""
        return self._id

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Write to the topic of this name, as a producer does, which knows no ids."""
        return self._log.append(key, value, headers)

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return some messages: one, three or five, by what is asked for."""
        self.check_same()
        if offset > self._log.end:
            raise ControlLogDamaged("It does not have this offset.")
        count = 1 if size == 1 else 3 if size == NEAR_BYTES else 5
        found = [message for message in self._log.messages if message.offset >= offset][:count]
        more = found and found[-1] is not self._log.messages[-1]
        behind = found[-1].offset + 1 if more else self._log.end
        self.read_messages += len(found)
        return Fetched(tuple(found), behind, self._log.end)

    def check_same(self) -> None:
        """Check the topic's id."""
        if self._log.id != self._id:
            raise ControlLogReplaced("It was made anew.")
