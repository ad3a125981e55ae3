"""What a place must offer so that a control log can live there."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """Numbered records that are created once and never changed; replaceable: a heartbeat per incarnation, the samples.

    Every method raises ControlUnavailable when it cannot tell: unknown is never reported as "not there".
    """

    folder: Path
    """Where the stream's releases are kept, in ``releases/``."""

    def create(self, seq: int, data: bytes) -> None:
        """Create record `seq` exclusively and durably; raise SeqTaken when that number is there already."""

    def read(self, seq: int) -> bytes | None:
        """Return record `seq`, or None when it is certain that there is none; ask only for what follows a record."""

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """Replace an incarnation's heartbeat as a whole: no reader ever sees half of one."""

    def heartbeat(self, incarnation: str) -> bytes | None:
        """Return an incarnation's heartbeat, or None when it never wrote one."""

    def heartbeats(self) -> list[str]:
        """Return the incarnations that wrote a heartbeat."""

    def put_samples(self, data: bytes) -> None:
        """Replace what the watch keeps (see `control.samples`) as a whole."""

    def samples(self) -> bytes | None:
        """Return what the watch keeps, or None when it never kept anything."""
