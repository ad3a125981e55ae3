"""Errors of PySpark as text for people, and what a StreamingQueryException says of the batch that failed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.lifecycle.heartbeat import RANGES, OffsetRange, read_by
from airflow_stream_provider.lifecycle.texts import redact

# Characters of an error that are looked at; many times what is kept.
_READ = 2**16
# The most of Spark's additions: the offsets of thousands of partitions.
_READ_OFFSETS = 2**18
# The most that is kept of an error, and of its first cause.
ERROR_KEPT, CAUSE_KEPT = 500, 300
# The most of an error that ends a driver or a rehearsal.
WHOLE_KEPT = 1500
# The most that is kept of an offset that is not a number, and of the name of a source.
_OFFSET_KEPT = 200
_IDENTITY = "=== Streaming Query ==="
# A line that names an error: `ValueError: text`, `Caused by: java.io.IOException: text`.
_NAMES = re.compile(
    r"(?:Caused by: )?((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Throwable)\b.*)"
)
_OFFSETS = re.compile(r"^Current (Committed|Available) Offsets: \{(.*)\}$", re.MULTILINE)
# Lines of a query's plan, which Spark's analysis puts behind a message: a source has its options in them.
_BELOW = re.compile(r"[\s:]{0,400}[+:]- ")
_NODE = re.compile(r"\s{0,9}['~!]{0,2}[A-Z]\w*(?:[ (\[]|\Z)")
_LEAF = re.compile(r"\s{0,9}['~!]{0,2}\w*Relation(?:V2)?(?:[ (\[]|\Z)")


@dataclass(frozen=True)
class Failure:
    """Why a query has failed, without secrets; see `lifecycle.heartbeat.QueryHealth` for the fields."""

    error: str
    cause: str = ""
    ranges: tuple[OffsetRange, ...] = ()
    left_out: int = 0

    def __str__(self) -> str:
        reads, text = read_by(self.ranges, self.left_out), self.error
        for more in (f"It began with {self.cause}" if self.cause else "", f"The batch reads {reads}" if reads else ""):
            text = f"{text.rstrip('.')}. {more}." if more else text
        return text


def failure_of(error: BaseException, limit: int = ERROR_KEPT) -> Failure:
    """Return why a query has failed: the error, what was raised first, and what the batch was to read.

    :param limit: characters of the error that are kept.
    """
    whole = message_of(error, _READ)
    named = [found[1] for found in map(_NAMES.fullmatch, map(str.strip, whole.splitlines())) if found]
    # A task's error is quoted in the message of the job, unless a JVM has it as the cause only.
    first = named[-1] if named else message_of(root, CAUSE_KEPT) if (root := _root(error)) is not error else ""
    cause = "" if first in whole[:limit] else first[:CAUSE_KEPT]
    ranges = [*_ranges(str(_said(error)))]
    return Failure(whole[:limit].strip(), cause, tuple(ranges[:RANGES]), max(0, len(ranges) - RANGES))


def _said(error: BaseException) -> object:
    # PySpark 4 keeps the text without the JVM's stack under another name.
    return getattr(error, "desc", None) or getattr(error, "_desc", None) or error


def _root(error: BaseException) -> BaseException:
    """Return the error behind an error of the JVM, the first that was raised."""
    for _ in range(20):
        behind = getattr(error, "_cause", None) or getattr(error, "cause", None)
        if not isinstance(behind, BaseException):
            break
        error = behind
    return error


def _ranges(text: str) -> Iterator[OffsetRange]:
    """Yield what the batch of a StreamingQueryException reads; nothing where none was planned."""
    about = text[text.find(_IDENTITY) :][:_READ_OFFSETS] if _IDENTITY in text else ""
    found = {which: dict(_sources(sources)) for which, sources in _OFFSETS.findall(about)}
    before = found.get("Committed", {})
    for source, end in found.get("Available", {}).items():
        start = before.get(source)
        to, since = _by_partition(end), _by_partition(start)
        if to is None:
            if start != end:
                yield OffsetRange(redact(source)[:_OFFSET_KEPT], _brief(start), _brief(end))
            continue
        for place in sorted({*to, *(since or {})}):
            low, high = (since or {}).get(place), to.get(place)
            if low != high:
                topic, partition = place
                yield OffsetRange(f"{topic}-{partition}", _brief(low), _brief(high))


def _sources(text: str) -> Iterator[tuple[str, Any]]:
    """Yield name and offset of each source in Scala's text of a map, ``name: JSON,name: JSON``; names have any text."""
    at = look = 0
    while (colon := text.find(": ", look)) >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, colon + 2)
        except ValueError:
            end = -1
        if end < 0 or text[end : end + 1] not in ("", ","):
            look = colon + 2
            continue
        yield text[at:colon], value
        at = look = end + 1


def _by_partition(offset: Any) -> dict[tuple[str, int], int] | None:
    """Return the offsets of a Kafka source; None for any other."""
    found = kafka_offsets(json.dumps(offset)) if isinstance(offset, Mapping) else None
    if found is None:
        return None
    return {(topic, partition): end for topic, of in found.items() for partition, end in of.items()}


def _brief(offset: Any) -> str:
    return "" if offset is None else redact(json.dumps(offset, separators=(",", ":")))[:_OFFSET_KEPT]


def message_of(error: BaseException, limit: int = WHOLE_KEPT) -> str:
    """Return an error's message without stacks, plan and secrets, cut at so many characters."""
    # An error may quote a whole record of Kafka, and a driver that looks through megabytes for secrets loses its lease.
    text = str(_said(error))[:_READ]
    # A StreamingQueryException ends with the query's identity, offsets and whole plan.
    text = text.partition(_IDENTITY)[0].partition("\nJVM stacktrace:")[0]
    kept: list[str] = []
    in_stack = False
    for line in text.splitlines():
        if _BELOW.match(line) or (kept and _LEAF.match(line)):
            if kept[1:] and _NODE.match(kept[-1]):
                kept.pop()  # the plan's first line looks like any other; the first of all is the message
            continue
        before, traceback, _ = line.partition("Traceback (most recent call last):")
        if traceback:
            in_stack, line = True, before.rstrip()
            if line:
                kept.append(line)
        elif in_stack and not line.startswith(" "):
            in_stack = False  # the line that names the error
        if not in_stack and not line.lstrip().startswith(("at ", "=== ", "Driver stacktrace:", "... ")):
            kept.append(line)
    # Redacted before it is cut: half a secret would not be recognised.
    return redact("\n".join(kept))[:limit].strip()
