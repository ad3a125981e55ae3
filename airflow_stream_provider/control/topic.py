"""A control topic as its store needs it, whichever client of Kafka carries it out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError
from airflow_stream_provider.lifecycle.ids import check_stream_name

_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
# Kafka's longest name of a topic, less the longest name of a stream and the dot.
_PREFIX_LENGTH = 249 - 64
# Bytes of messages that one request reads, unless it is told otherwise.
READ_BYTES = 2**20
# The topic of a control root itself, behind the prefix. No stream's name begins so.
ROOT = "_root"
# Seconds in which a message that Kafka has must arrive.
READ_SECONDS = 5.0


@dataclass(frozen=True)
class Message:
    """One message, with its headers by name; a value of None removes what its key said before, once compacted.

    :param at: when it was written, in seconds since 1970; by the leader's clock where the topic says LogAppendTime.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]
    at: float = 0.0


@dataclass(frozen=True)
class Fetched:
    """The answer of one request.

    :param messages: those from the offset on, as many as the broker sent.
    :param next_offset: where to read on; beyond the messages, also where compaction has removed some.
    :param end: the high watermark: the offset behind the last message that all replicas in sync have.
    """

    messages: tuple[Message, ...]
    next_offset: int
    end: int


def check_prefix(prefix: str) -> None:
    """Check what the names of a control root's topics begin with.

    :raises SpecError: Kafka would not take it.
    """
    if not _PREFIX.fullmatch(prefix) or prefix in (".", "..") or len(prefix) > _PREFIX_LENGTH:
        raise SpecError(
            f"{prefix!r:.200} cannot begin the names of topics: up to {_PREFIX_LENGTH} letters, digits, '.', '_' and "
            "'-' are expected.",
            next_step="Correct the prefix in `control`, the part after the connection: kafka://CONNECTION/PREFIX.",
        )


def root_name(prefix: str) -> str:
    """Return the name of the topic of a control root itself: ``PREFIX._root``.

    :raises SpecError: Kafka would not take it.
    """
    check_prefix(prefix)
    return f"{prefix}.{ROOT}"


def topic_name(prefix: str, stream: str) -> str:
    """Return the name of a stream's topic: ``PREFIX.STREAM``.

    :raises SpecError: Kafka would not take it.
    """
    check_prefix(prefix)
    return f"{prefix}.{check_stream_name(stream)}"


class Topic(Protocol):
    """One topic of one partition.

    All methods raise ControlUnavailable when Kafka does not answer, and ControlLogReplaced when the topic is not the
    one that was opened.
    """

    name: str
    """With its Kafka, for people: ``streams.orders of the connection kafka_default``."""

    def topic_id(self) -> str:
        """Return the topic's id, 32 hex digits; one that is made anew under its name has another."""

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Write one message, acknowledged by all replicas in sync, and return its offset.

        :raises ControlUnavailable: it was not written, or that is not known.
        """

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return the messages from an offset on, as far as all replicas in sync have them; perhaps not all of them.

        :param size: about so many bytes of them, and at least one message; default 1 MiB.
        :raises ControlLogDamaged: the topic does not keep this offset any more, or does not reach it.
        """

    def check_same(self) -> None:
        """Check that the topic of this name is still the one that was read first, by its id.

        :raises ControlLogReplaced: it was made anew.
        """


def read_all(topic: Topic, offset: int, take: Callable[[Sequence[Message]], None], least: int = 0) -> int:
    """Read a topic to its end, and return the offset behind it.

    :param offset: to read on from.
    :param take: is given the messages, in their order.
    :param least: do not stop before this offset, behind a message that was written. Default 0.
    :raises ControlUnavailable: also when messages that Kafka has do not arrive.
    """
    until = time.monotonic() + READ_SECONDS
    while True:
        fetched = topic.read(offset)
        take([message for message in fetched.messages if message.offset >= offset])
        moved, offset = fetched.next_offset > offset, max(offset, fetched.next_offset)
        if offset >= max(fetched.end, least):
            return offset
        if moved:
            until = time.monotonic() + READ_SECONDS
        elif time.monotonic() > until:
            raise not_returned(topic, offset, max(fetched.end, least))
        else:
            time.sleep(0.02)


def not_returned(topic: Topic, offset: int, end: int) -> ControlUnavailable:
    """Return the error for messages that Kafka has, and does not send."""
    return ControlUnavailable(
        f"{topic.name} does not return offset {offset}, though it goes up to {end}.",
        next_step="Check its brokers. Nothing is lost: the drivers wait for it.",
    )
