"""One record of the control log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError

# Grows with every new kind. Drivers live for months: nobody writes a kind that the oldest live driver,
# which announces its number in the heartbeat, does not understand.
LOG_VERSION = 1


_AUTHORSHIP = ("kind", "by", "at", "nonce")


class Kind:
    """What happened: plain strings, since a kind that this version does not know is carried along."""

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
    """How the holder's queries ended: on a finished batch, or inside one."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Record:
    """A kind and its fields, with who wrote it, when (seconds of the author's clock) and a nonce to know it again.

    `seq` is its number in the log; 0 until it is written.
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
        """Return a field, or the default when the record does not have it."""
        return self.fields.get(name, default)

    def numbered(self, seq: int) -> Record:
        """Return the record as it stands in the log under this number."""
        return replace(self, seq=seq)

    def to_json(self) -> bytes:
        """Return the record as it is stored: one JSON object, its fields beside kind, by, at and nonce."""
        body = {**self.fields, "kind": str(self.kind), "by": self.by, "at": self.at, "nonce": self.nonce}
        return json.dumps(body, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes, seq: int) -> Record:
        """Parse a stored record; raise StreamError, naming the number, when it is not one."""
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
