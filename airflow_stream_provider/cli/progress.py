"""What a person sees while a command waits: on standard error, so that standard output has the result alone."""

from __future__ import annotations

import sys
import time
from datetime import datetime

from airflow_stream_provider.lifecycle.plain_text import plain
from airflow_stream_provider.planning.snapshot import Snapshot

# A line of a wait that goes on comes so often, in seconds.
EVERY_SECONDS = 15.0


class Progress:
    """Takes what the step loop and the wait log, and says from time to time that it still waits, and for whom."""

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def info(self, text: str, *values: object) -> None:
        """Show a line."""
        self._said_at = time.monotonic()
        print(plain(f"{datetime.now().astimezone():%H:%M:%S} {text % values}"), file=sys.stderr, flush=True)

    warning = info

    def still(self, waits_for: str, last: Snapshot | None) -> None:
        """Show what is waited for, and what the drivers said last, unless a line was shown a moment ago."""
        if time.monotonic() < self._said_at + EVERY_SECONDS:
            return
        beats = last.heartbeats if last is not None else {}
        says = "; ".join(f"{name}: {beat.phase} {beat.message}".rstrip() for name, beat in beats.items())
        self.info("still waiting for %s. %s", waits_for, says)
