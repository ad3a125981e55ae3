"""The records of the control log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError

_AUTHORSHIP = ("kind", "by", "at", "nonce")


class Kind:
    """The kinds of records. Plain strings, not an enum: a log may hold kinds that this version does not know."""

    DECLARED = "declared"
    SUBMITTED = "submitted"
    STANDBY = "standby"
    REQUESTED = "requested"
    READY = "ready"
    RELEASED = "released"
    ACQUIRED = "acquired"
    FENCED = "fenced"
    ABORTED = "aborted"
    FAILED = "failed"
    FINISHED = "finished"
    RETIRED = "retired"


class Boundary(str, Enum):
    """How a query, or all queries of a holder, stopped."""

    COMPLETED = "completed"  # every planned batch is committed
    INTERRUPTED = "interrupted"  # a planned batch is not committed; its tasks may still write


@dataclass(frozen=True)
class Record:
    """One record.

    :param kind: see Kind.
    :param fields: what the kind carries; docs/compatibility.md lists them.
    :param by: who wrote it: ``airflow:DAG/RUN/TASK`` or ``driver:INCARNATION``.
    :param at: when, in seconds since 1970 by the writer's clock.
    :param nonce: random; a writer recognises its own record by it after a lost answer.
    :param seq: number in the log, from 1; 0 until it is written.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    at: float = 0.0
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    seq: int = 0

    def __post_init__(self) -> None:
        clash = [name for name in _AUTHORSHIP if name in self.fields]
        if clash:
            raise ValueError(f"{', '.join(clash)} say who wrote a record, and when; no field can be named so.")

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or `default` when the record does not have it."""
        return self.fields.get(name, default)

    def numbered(self, seq: int) -> Record:
        """Return the same record with its number in the log."""
        return replace(self, seq=seq)

    def to_json(self) -> bytes:
        """Return the stored form: one JSON object with the fields and kind, by, at and nonce side by side."""
        body = {**self.fields, "kind": str(self.kind), "by": self.by, "at": self.at, "nonce": self.nonce}
        return json.dumps(body, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes, seq: int) -> Record:
        """Parse a stored record.

        :raises StreamError: it is not a record; the message names its number.
        """
        try:
            body = dict(json.loads(data))
            kind, by, at, nonce = (body.pop(name) for name in _AUTHORSHIP)
            at = float(at)
        except (ValueError, KeyError, TypeError) as error:
            raise StreamError(
                f"Record {seq} of the control log is not readable: {error}.",
                next_step="Restore the control folder from its back-up; never edit it by hand.",
                seq=seq,
            ) from error
        return cls(kind=str(kind), fields=body, by=str(by), at=at, nonce=str(nonce), seq=seq)
