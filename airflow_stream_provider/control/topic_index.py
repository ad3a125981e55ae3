"""Read the messages of a control topic: the records by number, and of all else the last. Pure.

Kafka keeps the order of the messages of a partition, and nothing else here decides: of two records with one number the
first counts, for every reader alike, and the other is as if it had never been written. Each message carries how far its
writer had read. It was written behind all of that, so a reader that does not find it there reads a log of which a part
is lost, or another log.

A topic keeps every record and the heartbeats of ten minutes and more: some MiB, which a watch of a thousand streams
cannot read once a minute. So a reader that opens one reads its last messages, takes the newest index among them, and
reads the rest where the index says that it is. All that the index leaves out is old; it is read from the first message
on when it is asked for.

An index is used only if it is whole (a checksum), of this topic (its id) and of this log (the record that it calls the
last one is where it says, with its nonce); `topic_reader` has the rest. A reader that cannot use one reads the topic.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from airflow_stream_provider.control.damage import LOST, damaged, replaced
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.lifecycle.ids import INCARNATION
from airflow_stream_provider.lifecycle.record import MAX_BYTES, Record

# The keys of messages. Each record has a key of its own: compaction, which keeps the last message of a key, must never
# remove one, nor put a repeated one behind a later number.
RECORD, HEARTBEAT, STATE, TOPIC_IDS, LOOK, SAMPLE = "record", "heartbeat", "state", "topics", "look", "sample"
# Bytes. A larger value is read again when somebody asks for it, and so are those for which all of them leave no room: a
# writer of a topic is not to fill the memory of all its readers.
HELD_VALUE = 64 * 2**10
HELD_VALUES = 16 * 2**20
# So many samples are kept: with one look a minute, those of eight hours.
SAMPLES = 500
_SAMPLE_KEY = re.compile(rf"{SAMPLE}/[0-9]{{1,3}}")
_RECORD_KEY = re.compile(rf"{RECORD}/([1-9][0-9]{{0,18}})/[0-9a-f]{{32}}")
# The headers: how far the writer had read, and how many heartbeats it had sent, or samples there were.
READ_TO, COUNT = "read-to", "count"


def record_key(seq: int) -> str:
    """Return a key for a record that no other message has, also when the same record is sent again."""
    return f"{RECORD}/{seq}/{uuid.uuid4().hex}"


def heartbeat_key(incarnation: str) -> str:
    """Return the key of an incarnation's heartbeats."""
    return f"{HEARTBEAT}/{incarnation}"


def sample_key(count: int) -> str:
    """Return the key of a stream's sample of this number: compaction keeps the last SAMPLES of them."""
    return f"{SAMPLE}/{count % SAMPLES}"


def number_of(key: bytes | None) -> int | None:
    """Return the number of the record that has this key; None: it is no record's."""
    found = _RECORD_KEY.fullmatch(_text(key))
    return None if found is None else int(found[1])


def replaced_key(key: bytes | None) -> str | None:
    """Return the key as text if it is one of which the last message counts; None: it is another one.

    Samples count as one: each leads to the one before it.
    """
    text = _text(key)
    if _SAMPLE_KEY.fullmatch(text):
        return SAMPLE
    kind, _, name = text.partition("/")
    known = text in (STATE, TOPIC_IDS) or (kind == HEARTBEAT and INCARNATION.fullmatch(name))
    return text if known else None


@dataclass(frozen=True)
class ReadTo:
    """How far a writer had read: the last record's number and nonce, and the nonce of the first."""

    seq: int = 0
    nonce: str = ""
    first: str = ""

    def to_header(self) -> bytes:
        """Return the stored form: the three with blanks between them."""
        return f"{self.seq} {self.nonce} {self.first}".encode()

    @classmethod
    def from_header(cls, data: bytes | None) -> ReadTo | None:
        """Return what a header says; None: it says nothing that this version could have written."""
        parts = _text(data).split(" ")
        if len(parts) != 3 or not parts[0].isdecimal() or len(parts[0]) > 20:
            return None
        return cls(int(parts[0]), parts[1], parts[2])


@dataclass
class Last:
    """The last message of a key.

    :param count: how many heartbeats its writer had sent, or how many samples there were, if it is one.
    :param value: what it says; None: it is not held here, only where it is is known. A sample's never is.
    :param at: when it was written, seconds since 1970; 0 if it was not read yet.
    """

    offset: int
    count: int = 0
    value: bytes | None = None
    at: float = 0.0


@dataclass
class TopicIndex:
    """The content of one topic: all of it, or the part for a reader that opened it from its end.

    :param next_offset: where to read on.
    :param offsets: the offset of each record that counts, by number: of all, or of the last ones.
    :param nonces: the nonces of those that were read.
    :param last: the last message of each key of which only the last counts.
    :param at: when the message that was taken in last was written, seconds since 1970.
    :param foreign: whether a writer had read a log with another first record, or a topic with another id: it does not
        know yet that the topic was made anew, or this reader does not.
    :param held: bytes of all values in `last`.
    """

    stream: str
    next_offset: int = 0
    read_to: ReadTo = field(default_factory=ReadTo)
    offsets: dict[int, int] = field(default_factory=dict)
    nonces: dict[int, str] = field(default_factory=dict)
    last: dict[str, Last] = field(default_factory=dict)
    at: float = 0.0
    foreign: bool = False
    held: int = field(default=0, compare=False)

    def hold(self, last: Last, value: bytes | None) -> None:
        """Keep the value of a last message, if there is room for it."""
        before = len(last.value or b"")
        fits = value is not None and len(value) <= min(HELD_VALUE, HELD_VALUES - self.held + before)
        last.value = value if fits else None
        self.held += len(last.value or b"") - before

    def lacks(self, message: Message) -> int | None:
        """Return the number of the record whose nonce must be known before this message is taken in, and is not."""
        theirs = ReadTo.from_header(message.headers.get(READ_TO))
        if theirs is None or not 0 < theirs.seq <= self.read_to.seq or theirs.first != self.read_to.first:
            return None
        return None if theirs.seq in self.nonces else theirs.seq

    def take(self, message: Message) -> int | None:
        """Take in the next message; return the record's number if it is one that counts.

        Messages that no version of this package writes change nothing.

        :raises ControlLogDamaged: its writer had read a record that is not in front of it.
        :raises ControlLogReplaced: its writer had read another record.
        """
        theirs = ReadTo.from_header(message.headers.get(READ_TO))
        # A person's tool writes no header, and compaction removes all the same what was under that key.
        ours = message.value is None if theirs is None else self._check(theirs)
        counts = self._apply(message) if ours else None
        self.next_offset, self.at = message.offset + 1, message.at
        return counts

    def _check(self, theirs: ReadTo) -> bool:
        """Return whether this message is of this log."""
        if theirs.seq and self.read_to.seq and theirs.first != self.read_to.first:
            self.foreign = True
            return False
        if theirs.seq > self.read_to.seq:
            raise damaged(self.stream, self.read_to.seq + 1, LOST)
        if theirs.seq and theirs.nonce != self.nonces[theirs.seq]:
            raise replaced(self.stream, theirs.seq)
        return True

    def _apply(self, message: Message) -> int | None:
        seq = number_of(message.key)
        if seq is not None and message.value is not None:
            return self._record(seq, message.offset, message.value)
        key = replaced_key(message.key)
        if key is None:
            return None
        if message.value is None:
            if key != STATE:  # that is never removed
                self.hold(self.last.pop(key, Last(0)), None)
            return None
        count = message.headers.get(COUNT, b"")
        sent = int(count) if count.isdigit() and len(count) < 20 else 0
        # A heartbeat whose answer was lost may arrive behind a later one.
        if key not in self.last or sent >= self.last[key].count:
            self.hold(self.last.get(key, Last(0)), None)
            self.last[key] = Last(message.offset, sent, None, message.at)
            self.hold(self.last[key], None if key == SAMPLE else message.value)
        return None

    def _record(self, seq: int, offset: int, value: bytes) -> int | None:
        if seq <= self.read_to.seq:
            return None  # another writer was first
        if seq > self.read_to.seq + 1:
            raise damaged(self.stream, self.read_to.seq + 1, LOST)
        nonce = Record.read(kept(value), seq).nonce
        self.offsets[seq], self.nonces[seq] = offset, nonce
        self.read_to = ReadTo(seq, nonce, self.read_to.first or nonce)
        return seq


def kept(value: bytes) -> bytes:
    """Return a record as readers take it: one that is too large is unreadable to everybody."""
    return value if len(value) <= MAX_BYTES else b""


def cut(message: Message) -> Message:
    """Return a message without those bytes of its value that decide nothing: a value that is too large stays so."""
    record, last = number_of(message.key) is not None, replaced_key(message.key) not in (None, SAMPLE)
    most = 1 + (MAX_BYTES if record else HELD_VALUE if last else 0)
    return message if message.value is None else replace(message, value=message.value[:most])


def _text(data: bytes | None) -> str:
    return (data or b"").decode("ascii", errors="replace")


INDEX = "index"
# Grows with every change of what is in it, or of what a reader concludes from it.
FORMAT = 1
# It has the offsets of so many last records: more than are written between two saved states (`log.SAVE_EVERY`).
RECORDS = 256
# Bytes; a larger one, as with hundreds of heartbeats that were not removed, is not written.
INDEX_LIMIT = 16 * 2**10
_TOPIC = re.compile(rb'%d [0-9a-f]{8} {"topic":"([0-9a-f]{32})"' % FORMAT)


def to_header(index: TopicIndex, topic_id: str) -> bytes | None:
    """Return the stored form of what is known, to be written beside `READ_TO`; None: there is nothing to tell."""
    seq = index.read_to.seq
    numbers = range(max(1, seq - RECORDS + 1), seq + 1)
    if not seq or numbers[0] not in index.offsets:
        return None
    offsets = [index.offsets[number] for number in numbers]
    body = {
        "topic": topic_id,
        "next": index.next_offset,
        # The first one, and how far each is from the one before.
        "records": [offsets[0], *(later - sooner for sooner, later in zip(offsets, offsets[1:]))],
        "last": {key: [last.offset, last.count] for key, last in index.last.items()},
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    header = b"%d %08x %s" % (FORMAT, _checksum(index.read_to.to_header(), text), text)
    return header if len(header) <= INDEX_LIMIT else None


def from_header(message: Message, topic_id: str, stream: str) -> TopicIndex | None:
    """Return the index that a message carries; None: none that can be used.

    It has no values, and only the nonce of the last record.
    """
    read_to = ReadTo.from_header(message.headers.get(READ_TO))
    number, _, rest = message.headers.get(INDEX, b"").partition(b" ")
    checksum, _, text = rest.partition(b" ")
    if (
        read_to is None
        or len(text) > INDEX_LIMIT
        or number != b"%d" % FORMAT
        or checksum != b"%08x" % _checksum(read_to.to_header(), text)
    ):
        return None
    try:
        body = json.loads(text)
        offsets = list(accumulate(map(int, body["records"])))
        index = TopicIndex(
            stream,
            int(body["next"]),
            read_to,
            dict(enumerate(offsets, start=read_to.seq - len(offsets) + 1)),
            {read_to.seq: read_to.nonce},
            {str(key): _last(*place) for key, place in body["last"].items()},
        )
        known = [*offsets, *(last.offset for last in index.last.values())]
        plausible = (
            body["topic"] == topic_id
            and index.next_offset <= message.offset
            and 0 < len(offsets) == min(read_to.seq, RECORDS)
            and all(sooner < later for sooner, later in zip(offsets, offsets[1:]))
            and all(0 <= offset < index.next_offset for offset in known)
            and all(key == SAMPLE or replaced_key(key.encode()) for key in index.last)
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return None
    return index if plausible else None


def of_another_topic(message: Message, topic_id: str) -> bool:
    """Whether a message carries the index of another topic: its writer's, or this reader's, was made anew since."""
    found = _TOPIC.match(message.headers.get(INDEX, b""))
    return found is not None and found[1] != topic_id.encode()


def _last(offset: Any, count: Any) -> Last:
    return Last(int(offset), int(count))


def _checksum(read_to: bytes, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(read_to))
