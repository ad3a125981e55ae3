"""Read a control topic: open it from its end, read on, and read what is old only when somebody asks for it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from airflow_stream_provider.control.damage import LOST, damaged, replaced
from airflow_stream_provider.control.topic import READ_SECONDS, Fetched, Message, Topic, not_returned
from airflow_stream_provider.control.topic_index import (
    HEARTBEAT,
    SAMPLE,
    Last,
    TopicIndex,
    cut,
    from_header,
    kept,
    number_of,
    of_another_topic,
    replaced_key,
)
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced
from airflow_stream_provider.lifecycle.record import Record

# So many records are kept in memory, and of so many bytes; older ones are read again when they are asked for.
_KEPT = 4096
_KEPT_BYTES = 32 * 2**20
# An index is looked for in so many of the last messages, then in more; then the topic is read from its beginning.
TAILS = (8, 64, 1024)
# Bytes of all these messages: behind more than that, the topic is read from its beginning, too.
TAIL_BYTES = 64 * 2**20
# Bytes that are read where a record is wanted, and those behind it may be: where it is old, compaction has left nothing
# else between them.
NEAR_BYTES = 2**15


class TopicReader:
    """Reads one topic. Not thread-safe.

    It answers exactly as one that has read every message: what it does not know, it reads when it is asked; and if
    anything is not where it must be, or does not fit, it reads the topic from the beginning. An end that was lost in an
    unclean election, and written anew, is noticed with the next record that somebody has read;
    `kafka.control_topic_setup` refuses topics that allow such elections.

    All methods raise what `Topic.read` raises, ControlLogDamaged and ControlLogReplaced.

    :param topic: whose log it is.
    :param stream: name of the stream, for error messages.
    """

    def __init__(self, topic: Topic, stream: str) -> None:
        self._topic = topic
        self._stream = stream
        self._index: TopicIndex | None = None
        # Whether the index has every record, and every value.
        self._whole = False
        self._records: OrderedDict[int, bytes] = OrderedDict()
        self._records_bytes = 0
        # The last message that did not fit an index.
        self._doubted = -1
        # Whether the topic did not reach the offset to read on from, when it was asked last.
        self._behind = False

    @property
    def index(self) -> TopicIndex:
        """The index; the topic is opened when that was not done yet."""
        if self._index is None:
            self._open()
        assert self._index is not None
        return self._index

    def read_to(self, offset: int) -> None:
        """Read up to a message that was written."""
        self._advance(lambda end: offset + 1)

    def read_to_end(self) -> None:
        """Read what there is now."""
        self._advance(lambda end: end)

    def record(self, seq: int) -> bytes | None:
        """Return a record among the messages that were read; None: there is none of this number."""
        if seq in self._records or not 0 < seq <= self.index.read_to.seq:
            return self._records.get(seq)
        if seq in self.index.offsets:
            found = self._load(self.index.offsets[seq], NEAR_BYTES)
            if found is not None and number_of(found.key) == seq:
                return kept(found.value or b"")
        if self._whole:
            raise damaged(self._stream, seq, LOST)
        self._read_all()
        return self.record(seq)

    def last(self, key: str) -> Last | None:
        """Return the last message of a key, with its value; None: there is none."""
        found = self._with_value(key)
        if found is not None and found.value is None:
            # A later one has replaced it, or it was removed, where the index does not know of it yet.
            self._read_all()
            found = self._with_value(key)
            if found is not None and found.value is None:
                raise not_returned(self._topic, found.offset, self.index.next_offset)
        return found

    def _with_value(self, key: str) -> Last | None:
        """Return the last message of a key; its value is None if it is not where it was."""
        found = self.index.last.get(key)
        if found is None or found.value is not None:
            return found
        message = self._load(found.offset, 1)
        if message is None or replaced_key(message.key) != key:
            return found
        return Last(found.offset, found.count, message.value, message.at)

    def at(self, offset: int) -> Message | None:
        """Return the message at an offset; None: it was compacted away."""
        found = self._topic.read(offset, 1).messages[:1]
        return found[0] if found and found[0].offset == offset else None

    def incarnations(self) -> list[str]:
        """Return the incarnations that have a heartbeat, sorted."""
        return sorted(key.partition("/")[2] for key in self.index.last if key.startswith(f"{HEARTBEAT}/"))

    def _open(self) -> None:
        """Start from an index near the end of the topic; if there is none, from its first message."""
        # Kafka keeps the first offset for ever, whatever is compacted; if it is gone, this raises.
        first = self._topic.read(0, 1)
        for count in TAILS:
            begin = first.end - count
            if begin <= first.next_offset:
                break
            tail = self._tail(begin, first.end)
            if tail is None:
                break
            if self._start(begin, tail):
                return
        self._index, self._whole = TopicIndex(self._stream), True
        self._take_all(first)

    def _tail(self, begin: int, end: int) -> list[Message] | None:
        """Return the messages from one offset to another; None: they are too large to be held."""
        found: list[Message] = []
        size = 0
        while begin < end:
            fetched = self._topic.read(begin)
            if fetched.next_offset == begin:
                break
            for message in map(cut, fetched.messages):
                size += len(message.value or b"") + sum(map(len, message.headers.values()))
                if size > TAIL_BYTES:
                    return None
                found.append(message)
            begin = fetched.next_offset
        return found

    def _start(self, begin: int, tail: Sequence[Message]) -> bool:
        """Start from the newest index in the last messages that can be used, and return whether there is one."""
        found = (from_header(message, self._topic.topic_id(), self._stream) for message in tail)
        for index in sorted((each for each in found if each), key=lambda each: -each.next_offset)[:3]:
            behind = [message for message in tail if message.offset < index.next_offset]
            if any((number_of(message.key) or 0) > index.read_to.seq for message in behind):
                continue  # its writer had not read what is there
            if self._proven(index, behind):
                self._index, self._whole = index, False
                for message in behind:
                    self._note(message)
                if begin <= index.next_offset:
                    for message in tail[len(behind) :]:
                        self._take(message)
                return True
        return False

    def _proven(self, index: TopicIndex, read: Sequence[Message]) -> bool:
        """Whether the record that an index calls the last one is where it says."""
        seq = index.read_to.seq
        at = index.offsets[seq]
        there = [message for message in read if message.offset == at]
        for message in there or self._topic.read(at, 1).messages[:1]:
            if (message.offset, number_of(message.key)) == (at, seq):
                return Record.read(kept(message.value or b""), seq).nonce == index.read_to.nonce
        return False

    def _advance(self, goal: Callable[[int], int]) -> None:
        """Read on up to an offset, which depends on the end of the log."""
        until = time.monotonic() + READ_SECONDS
        while True:
            before = self.index.next_offset
            fetched = self._read_on(before)
            self._take_all(fetched)
            if self.index.next_offset >= goal(fetched.end):
                return
            if self.index.next_offset == before:
                if time.monotonic() > until:
                    raise not_returned(self._topic, before, fetched.end)
                time.sleep(0.02)

    def _read_on(self, offset: int) -> Fetched:
        """Return the messages from an offset on, of the log that was read before.

        A topic that did not reach it may have lost its end, and have grown again since; or a broker was asked that was
        behind. Which of them, the last record tells.

        :raises ControlLogReplaced: the last record that was read is not there any more.
        """
        try:
            fetched = self._topic.read(offset)
        except ControlLogDamaged:
            self._behind = True
            raise
        last = self.index.read_to
        if self._behind and last.seq:
            at = self.index.offsets[last.seq]
            there = self._topic.read(at, 1)
            if there.end <= at:
                return fetched  # a new leader that does not know yet how far it goes
            found = [Record.read(kept(each.value or b""), last.seq).nonce for each in there.messages[:1]]
            if found != [last.nonce]:
                raise replaced(self._stream, last.seq)
        self._behind = False
        return fetched

    def _take_all(self, fetched: Fetched) -> None:
        for message in fetched.messages:
            self._take(message)
        if self.index.foreign:
            self._topic.check_same()
            self.index.foreign = False
        self.index.next_offset = max(self.index.next_offset, fetched.next_offset)

    def _take(self, message: Message) -> None:
        if message.offset < self.index.next_offset:
            return
        if of_another_topic(message, self._topic.topic_id()):
            self.index.foreign = True
        lacking = self.index.lacks(message)
        if lacking is not None:
            data = self.record(lacking)
            if message.offset < self.index.next_offset:
                return  # meanwhile the whole topic was read
            self.index.nonces.setdefault(lacking, Record.read(data or b"", lacking).nonce)
        try:
            seq = self.index.take(message)
        except (ControlLogDamaged, ControlLogReplaced):
            if self._whole or self._doubted == message.offset:
                raise
            # Whether the log is damaged, or the index was not true, the whole log tells: once.
            try:
                self._read_all()
            except (ControlLogDamaged, ControlLogReplaced):
                self._doubted = message.offset
                raise
            return
        if seq is not None:
            self._keep(seq, message.value or b"")

    def _load(self, offset: int, size: int) -> Message | None:
        """Return the message at an offset that was read before, and take in those behind it; None: it is gone."""
        fetched = self._topic.read(offset, size)
        if fetched.end <= offset:
            raise not_returned(self._topic, offset, offset + 1)
        messages = fetched.messages
        for message in messages:
            self._note(message)
        return messages[0] if messages and messages[0].offset == offset else None

    def _note(self, message: Message) -> None:
        """Take the value of a message where the index says that it is."""
        seq, key = number_of(message.key), replaced_key(message.key)
        if seq is not None and self.index.offsets.get(seq) == message.offset:
            self._keep(seq, message.value or b"")
        last = None if key is None else self.index.last.get(key)
        if last is not None and last.offset == message.offset:
            last.at = message.at
            self.index.hold(last, None if key == SAMPLE else message.value)

    def _read_all(self) -> None:
        """Read the topic from its first message on.

        :raises ControlLogReplaced: the last record that was read before is not in it.
        """
        known, self._index, self._whole = self.index, TopicIndex(self._stream), True
        try:
            # A new leader may not show all that was read from the one before it, for a while (KIP-207).
            self._advance(lambda end: max(end, known.next_offset))
            if known.read_to.seq and self._index.nonces.get(known.read_to.seq) != known.read_to.nonce:
                raise replaced(self._stream, known.read_to.seq)
        except BaseException:
            self._index, self._whole = known, False
            raise

    def _keep(self, seq: int, data: bytes) -> None:
        self._records_bytes -= len(self._records.pop(seq, b""))
        self._records[seq] = kept(data)
        self._records_bytes += len(self._records[seq])
        while len(self._records) > _KEPT or (self._records_bytes > _KEPT_BYTES and len(self._records) > 1):
            self._records_bytes -= len(self._records.popitem(last=False)[1])
