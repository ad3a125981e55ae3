"""A writer puts an index of its topic into a header of its heartbeats: later readers start from there.

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
import zlib
from itertools import accumulate
from typing import Any

from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_index import READ_TO, SAMPLE, Last, ReadTo, TopicIndex, replaced_key

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
