"""Record what a control log in a Kafka topic says: every message, as it is written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from airflow_stream_provider.control.topic import Message, Topic, read_all
from airflow_stream_provider.control.topic_index import HEARTBEAT, TopicIndex, heartbeat_key, kept, replaced_key
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Kind, Record
from chaos.patience import answered
from chaos.records import some
from chaos.sightings import Sighting

# Between two reads: what the nemesis waits for shall not be older. `released`, which comes after the last two kinds of
# records, is over soon.
POLL_SECONDS, HASTY_SECONDS = 0.05, 0.005
HASTY_AFTER = (Kind.REQUESTED, Kind.READY)
# After an error that is none of a broker.
STRANGE_SECONDS = 1.0
# What a read that hangs is waited for at the end.
END_SECONDS = 10.0


class TopicLog:
    """Reads a topic from its first message on, in a daemon thread while its `with` block runs; implements
    `RecordedLog`.

    While the broker does not answer, all stays as it was. Times are the broker's, who notes when it appends a message.
    A heartbeat that compaction will remove was read before. Thread-safe.

    :param topic: with a client that nobody else uses: a read that hangs shall keep up nobody.
    :param stream: name of the stream, for error messages.
    """

    folder = None
    """See `RecordedLog.folder`: there is none."""

    def __init__(self, topic: Topic, stream: str) -> None:
        self.records: list[tuple[Record, float]] = []
        self.sightings: dict[str, Sighting] = {}
        self._topic = topic
        self._stream = stream
        self._data: list[bytes] = []
        self._index = TopicIndex(stream)
        # One for who reads on, and one for what was read, which nobody holds while the broker is asked.
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._strange: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic log", daemon=True)

    def __enter__(self) -> TopicLog:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join(END_SECONDS)

    @property
    def looks(self) -> Sequence[Callable[[], None]]:
        """See `RecordedLog.looks`."""
        return (self.catch_up,)

    def catch_up(self) -> None:
        """Read what there is now.

        :raises StreamError: the broker does not answer, or the log is damaged.
        """
        with self._reading:
            behind = read_all(self._topic, self._index.next_offset, self._take)
            with self._lock:
                self._index.next_offset = max(self._index.next_offset, behind)

    def gaps(self) -> list[str]:
        """See `RecordedLog.gaps`. Compares with the topic as it is now, read from its first message."""
        read = len(self._data)
        try:
            there = answered(self._read_anew)
            answered(self.catch_up)  # the stream still runs: what is unread now was there before this look
        except StreamError as error:
            return [*sorted(self._strange), f"The control log cannot be read as a whole: {error}"]
        found = sorted(self._strange)
        if len(there) < read:
            missing = list(range(len(there) + 1, read + 1))
            found.append(f"The control log has no record {some(missing)}, and goes to {read}. Find out who removed it.")
        changed = [seq for seq, (now, then) in enumerate(zip(there, self._data, strict=False), 1) if now != then]
        if changed:
            found.append(f"The records {some(changed)} of the control log were changed. Find out who wrote them.")
        return found

    def write(self, path: Path) -> None:
        """Write all records to a file, one a line, as they are stored."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            path.write_bytes(b"".join(data.strip() + b"\n" for data in self._data))

    def record(self, seq: int) -> bytes | None:
        """Return a record as it is stored; None: none of this number was read."""
        with self._lock:
            return self._data[seq - 1] if 0 < seq <= len(self._data) else None

    def heartbeat(self, incarnation: str) -> bytes | None:
        """Return the last heartbeat of an incarnation as it is stored; None: none was read, or it was removed."""
        with self._lock:
            found = self._index.last.get(heartbeat_key(incarnation))
            return None if found is None else found.value

    def heartbeats(self) -> list[str]:
        """Return the incarnations that have a heartbeat, sorted."""
        with self._lock:
            return sorted(filter(None, map(_incarnation, self._index.last)))

    def _run(self) -> None:
        while not self._stopped.wait(self._pause()):
            try:
                with contextlib.suppress(StreamError):
                    self.catch_up()
            except Exception as error:  # noqa: BLE001 - a problem of the run, which goes on
                self._strange.add(f"Reading the control log raised {error!r}. Mend it.")
                self._stopped.wait(STRANGE_SECONDS)

    def _pause(self) -> float:
        last = self.records[-1][0].kind if self.records else ""
        return HASTY_SECONDS if last in HASTY_AFTER else POLL_SECONDS

    def _take(self, messages: Sequence[Message]) -> None:
        with self._lock:
            for message in messages:
                seq = self._index.take(message)
                if seq is not None:
                    self._data.append(kept(message.value or b""))
                    self.records.append((Record.read(self._data[-1], seq), message.at))
                self._see(message)

    def _see(self, message: Message) -> None:
        """Note a heartbeat, unless a later one of its driver was in front of it."""
        key = replaced_key(message.key) or ""
        incarnation, last = _incarnation(key), self._index.last.get(key)
        if incarnation and last is not None and last.offset == message.offset:
            with contextlib.suppress(StreamError):  # nobody can read it: the next one can be read
                beat = Heartbeat.from_json(message.value or b"", incarnation)
                self.sightings.setdefault(incarnation, Sighting()).saw(beat, message.at)

    def _read_anew(self) -> list[bytes]:
        index, found = TopicIndex(self._stream), list[bytes]()

        def take(messages: Sequence[Message]) -> None:
            found.extend(kept(message.value or b"") for message in messages if index.take(message) is not None)

        read_all(self._topic, 0, take)
        return found


def _incarnation(key: str) -> str:
    kind, _, name = key.partition("/")
    return name if kind == HEARTBEAT else ""
