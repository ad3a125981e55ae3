"""The records of the control log."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.texts import plain_within

# A larger or deeper record is not readable, for every reader alike: without fixed limits one Python could parse what
# another cannot, and two drivers would read one log differently.
MAX_BYTES = 1 << 20
MAX_DEPTH = 64

_AUTHORSHIP = ("kind", "by", "at", "nonce")
_RESERVED = (*_AUTHORSHIP, "previous")


class Kind:
    """The kinds of records. Plain strings, not an enum: a log may hold kinds that this version does not know."""

    DECLARED = "declared"
    SUBMITTED = "submitted"
    STANDBY = "standby"
    REQUESTED = "requested"
    READY = "ready"
    RELEASED = "released"
    ACQUIRED = "acquired"
    FENCING = "fencing"  # written before a driver is killed
    FENCED = "fenced"  # written once it is confirmed dead
    ABORTED = "aborted"
    FAILED = "failed"
    FINISHED = "finished"
    RETIRED = "retired"
    WANTED = "wanted"  # what is to be; written before anything is done for it
    ENDING = "ending"  # written before a job without a stream is ended, for a deployment to follow it
    UNREADABLE = "unreadable"  # never written: what a reader makes of bytes that are no record


class Boundary(str, Enum):
    """How a query, or all queries of a holder, stopped."""

    # For one query: every planned batch is committed. For a holder: and nothing can still write an open batch.
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"  # a planned batch is not committed; of a holder: and something may still write


@dataclass(frozen=True)
class Record:
    """One record.

    :param kind: see Kind.
    :param fields: what the kind carries; docs/compatibility.md lists them.
    :param by: who wrote it: ``airflow:DAG/RUN/TASK``, ``driver:INCARNATION`` or ``person:USER@HOST/TIME/COMMAND``.
    :param at: when, in seconds since 1970 by the writer's clock.
    :param nonce: random; a writer recognises its own record by it after a lost answer.
    :param seq: number in the log, from 1; 0 until it is written.
    :param previous: the nonce of the record before it; empty for the first one, and where somebody has written it past
        the log.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    at: float = 0.0
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    seq: int = 0
    previous: str = ""

    def __post_init__(self) -> None:
        clash = [name for name in _RESERVED if name in self.fields]
        if clash:
            raise ValueError(f"{', '.join(clash)} say who wrote a record, and when; no field can be named so.")

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `default` when the record does not have it."""
        return self.fields.get(name, default)

    def numbered(self, seq: int, previous: str = "") -> Record:
        """Return the same record with its number in the log and the nonce of the record before it."""
        return replace(self, seq=seq, previous=previous)

    def to_json(self) -> bytes:
        """Return the stored form: one JSON object with the fields and kind, by, at, nonce and previous side by side."""
        body = {**self.fields, "kind": str(self.kind), "by": self.by, "at": self.at, "nonce": self.nonce}
        if self.previous:
            body["previous"] = self.previous
        return json.dumps(body, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes, seq: int) -> Record:
        """Parse a stored record; its texts are made plain (`texts.plain`), but for those of a release.

        :raises StreamError: it is not a record; the message names its number.
        """
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES} bytes")
            body = json.loads(data, parse_int=_integer)
            if not isinstance(body, dict):
                raise ValueError("it is no JSON object")
            if _deeper(body, MAX_DEPTH):
                raise ValueError(f"it is nested deeper than {MAX_DEPTH}")
            # The hash of a release is over its texts as they are.
            body = {name: value if name == "release" else plain_within(value) for name, value in body.items()}
            kind, by, at, nonce = (body.pop(name) for name in _AUTHORSHIP)
            at, previous = float(at), str(body.pop("previous", ""))
            if not math.isfinite(at):
                raise ValueError("its time is no number")
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StreamError(
                f"Record {seq} of the control log is not readable: {error}.",
                next_step="Restore the control folder from its back-up; never edit it by hand.",
                seq=seq,
            ) from error
        return cls(kind=str(kind), fields=body, by=str(by), at=at, nonce=str(nonce), seq=seq, previous=previous)

    @classmethod
    def read(cls, data: bytes, seq: int) -> Record:
        """Parse a stored record, whatever it is.

        Bytes that are no record become one of kind `unreadable`, which is legal nowhere. Its nonce is made of its
        bytes, so that the record after it can name it.
        """
        try:
            return cls.from_json(data, seq)
        except StreamError:
            return cls(kind=Kind.UNREADABLE, nonce=hashlib.sha256(data).hexdigest()[:32], seq=seq)


def _integer(digits: str) -> int:
    # Some Pythons refuse to parse thousands of digits and others do not: here all of them refuse.
    if len(digits) > 100:
        raise ValueError("a number has more than 100 digits")
    return int(digits)


def _deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than so many levels."""
    inner: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_deeper(each, levels - 1) for each in inner))


def evidence_of(record: Record) -> Mapping[str, Any]:
    """Return by what a record was confirmed that a driver, or a job, is gone; empty: it does not say."""
    found = record.get("evidence")
    return found if isinstance(found, Mapping) else {}


def by_checkpoint(ends: Mapping[str, Any]) -> dict[str, int]:
    """Return the last committed batch in each checkpoint, as far as the ends of a record tell."""
    # Fields of other authors may be anything.
    named = (end for end in ends.values() if isinstance(end, Mapping) and isinstance(end.get("checkpoint"), str))
    return {end["checkpoint"]: end["batch"] for end in named if isinstance(end.get("batch"), int)}
