"""Store a control log in a Kafka topic with one partition, which is compacted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

from airflow_stream_provider.control.files import STATE_LIMIT
from airflow_stream_provider.control.topic import Topic
from airflow_stream_provider.control.topic_index import (
    COUNT,
    INDEX,
    LOOK,
    READ_TO,
    SAMPLE,
    STATE,
    TOPIC_IDS,
    Last,
    heartbeat_key,
    record_key,
    replaced_key,
    sample_key,
    to_header,
)
from airflow_stream_provider.control.topic_reader import TopicReader
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged, SeqTaken
from airflow_stream_provider.lifecycle.heartbeat import HEARTBEAT_LIMIT
from airflow_stream_provider.lifecycle.ids import INCARNATION, check_id
from airflow_stream_provider.lifecycle.record import MAX_BYTES

# At most so often it is made sure that a heartbeat stands still.
STILL_SECONDS = 1.0


class TopicStore:
    """A store in a topic; implements `Store` and `Samples`. Thread-safe.

    A record is a message with a key of its own. Kafka orders the messages of a partition; of two records with one
    number the first counts (`topic_index`), and `create` reads as far as its own message before it tells which was
    first.

    A broker that is not the leader any more, and does not know it yet, may go on answering reads (KIP-207 covers new
    leaders only). A write needs the replicas in sync, which such a broker has lost. So a process that must not go by an
    old state writes first, and reads up to what it has written: `put_heartbeat` does, and `heartbeat` if one stands
    still.

    :param topic: whose log it is.
    :param stream: name of the stream, for error messages.
    """

    def __init__(self, topic: Topic, stream: str) -> None:
        self.where = topic.name
        self._topic = topic
        self._reader = TopicReader(topic, stream)
        self._beats_sent = 0
        # The last record that its user knows; None: it has not asked for one yet.
        self._told: int | None = None
        # Where heartbeats stood at the last call, and when it was last sure that nothing newer had been written.
        self._stood: dict[str, int] = {}
        self._caught_up = -math.inf
        self._lock = threading.RLock()

    def create(self, seq: int, data: bytes) -> None:
        """Write record `seq`; see `Store.create`."""
        with self._lock:
            self._reader.read_to(self._write(record_key(seq), data))
            if self._reader.record(seq) != data:
                raise SeqTaken(
                    f"Record {seq} exists already.", next_step="Read the log again and decide again.", seq=seq
                )
            self._told = max(self._told or 0, seq)

    def read(self, seq: int) -> bytes | None:
        """Return record `seq`, or None if the topic has none; see `Store.read`."""
        with self._lock:
            if seq > self._reader.index.read_to.seq:
                self._reader.read_to_end()
            found = self._reader.record(seq)
            self._told = max(self._told or 0, 0 if found is None else seq)
            return found

    def next_number(self, seq: int) -> int | None:
        """Return the lowest number above `seq` that a record has, or None; see `Store.next_number`."""
        with self._lock:
            self._reader.read_to_end()
            return seq + 1 if seq < self._reader.index.read_to.seq else None

    def origin(self) -> str:
        """Return the nonce of the first record; see `Store.origin`."""
        with self._lock:
            self._reader.read_to_end()
            return self._reader.index.read_to.first

    def catch_up(self) -> None:
        """Read all that was written until now, from a broker that leads: write, and read up to that."""
        with self._lock:
            began = time.monotonic()
            self._reader.read_to(self._write(LOOK, b"-", self._indexed()))
            self._caught_up = began

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """Replace an incarnation's heartbeat, and read all that was written before it; see `Store.put_heartbeat`.

        A heartbeat renews a lease, for which its driver must have read the log: up to it, and from a broker that leads.

        :raises ControlUnavailable: also when there are records that were not read before it was sent.
        """
        with self._lock:
            self._beats_sent += 1
            key = heartbeat_key(check_id(incarnation, INCARNATION))
            count = {COUNT: str(self._beats_sent).encode()}
            began = time.monotonic()
            self._reader.read_to(self._write(key, data, {**count, **self._indexed()}))
            self._caught_up = began
            if self._told is not None and self._reader.index.read_to.seq > self._told:
                raise ControlUnavailable(
                    f"The control log in {self.where} has more records than were read before this heartbeat.",
                    next_step="Nothing to do: they are read, and the next heartbeat renews the lease.",
                )

    def heartbeat(self, incarnation: str) -> bytes | None:
        """Return an incarnation's heartbeat, or None if it never wrote one.

        One that stands still where it stood at the last call is read again behind a write: that it stands still is what
        a driver is fenced for.
        """
        with self._lock:
            found = self._last(heartbeat_key(incarnation), HEARTBEAT_LIMIT)
            stands = self._reader.index.last.get(heartbeat_key(incarnation), Last(-1)).offset
            if stands == self._stood.get(incarnation) and time.monotonic() - self._caught_up >= STILL_SECONDS:
                self.catch_up()
                found = self._last(heartbeat_key(incarnation), HEARTBEAT_LIMIT)
            self._stood[incarnation] = stands
            return found

    def heartbeats(self) -> list[str]:
        """Return the incarnations that have a heartbeat, sorted."""
        with self._lock:
            self._reader.read_to_end()
            return self._reader.incarnations()

    def idle_heartbeats(self, seconds: float) -> list[str]:
        """Return the incarnations whose heartbeat was last written so long ago, by the clock of the topic's leader."""
        with self._lock:
            self.catch_up()
            now = self._reader.index.at
            found = {name: self._reader.last(heartbeat_key(name)) for name in self._reader.incarnations()}
            return [name for name, last in found.items() if last is not None and now - last.at > seconds]

    def remove_heartbeat(self, incarnation: str) -> None:
        """Remove an incarnation's heartbeat; there may be none.

        Compaction removes what the topic has of it, and a day later that it was removed.
        """
        with self._lock:
            self._reader.read_to(self._write(heartbeat_key(check_id(incarnation, INCARNATION)), None))

    def put_topic_ids(self, data: bytes) -> None:
        """Replace the ids of the topics that are read; see `Store.put_topic_ids`."""
        with self._lock:
            self._write(TOPIC_IDS, data)

    def topic_ids(self) -> bytes | None:
        """Return the ids of the topics that are read, or None if none were noted yet."""
        return self._last(TOPIC_IDS, MAX_BYTES)

    def put_saved_state(self, data: bytes) -> None:
        """Replace the saved state; see `Store.put_saved_state`."""
        with self._lock:
            self._write(STATE, data)

    def saved_state(self) -> bytes | None:
        """Return the saved state, or None if there is none yet."""
        return self._last(STATE, STATE_LIMIT)

    def add(self, line: bytes) -> None:
        """Add a sample, which leads to the one before it; see `Samples.add`."""
        with self._lock:
            self._reader.read_to_end()
            before = self._reader.index.last.get(SAMPLE, Last(-1))
            count = before.count + 1
            value = b"%d " % before.offset + line
            self._reader.read_to(self._write(sample_key(count), value, {COUNT: str(count).encode()}))

    def newest(self) -> Iterator[bytes]:
        """Yield the samples, the newest first; see `Samples.newest`."""
        with self._lock:
            self._reader.read_to_end()
            offset = self._reader.index.last.get(SAMPLE, Last(-1)).offset
        while offset >= 0:
            with self._lock:
                message = self._reader.at(offset)
            if message is None or message.value is None or replaced_key(message.key) != SAMPLE:
                return
            before, _, line = message.value.partition(b" ")
            yield line
            # Those before are further in front: what somebody else has written leads nowhere, or round in circles.
            earlier = int(before) if before.isdigit() and len(before) < 19 else -1
            offset = earlier if earlier < offset else -1

    def shorten(self) -> None:
        """Do nothing: compaction leaves the last SAMPLES; see `Samples.shorten`."""

    def _last(self, key: str, limit: int) -> bytes | None:
        with self._lock:
            self._reader.read_to_end()
            found = self._reader.last(key)
            if found is None or found.value is None:
                return None
            if len(found.value) > limit:
                raise Damaged(
                    f"{key} in {self.where} has {len(found.value)} bytes, and at most {limit} are ever written.",
                    next_step="Its writer does not know this log: find out who may write to the topic.",
                )
            return found.value

    def _indexed(self) -> dict[str, bytes]:
        header = to_header(self._reader.index, self._topic.topic_id())
        return {} if header is None else {INDEX: header}

    def _write(self, key: str, value: bytes | None, headers: dict[str, bytes] | None = None) -> int:
        read_to = {READ_TO: self._reader.index.read_to.to_header()}
        return self._topic.write(key.encode(), value, {**read_to, **(headers or {})})
