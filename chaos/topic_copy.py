"""A control log in a topic as it was read last: whoever follows it waits for no broker."""

from __future__ import annotations

from typing import NoReturn

from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from chaos.topic_log import TopicLog


class TopicCopy:
    """Implements `Store` with what a `TopicLog` has read. Nothing can be written to it. Thread-safe."""

    def __init__(self, log: TopicLog) -> None:
        self._log = log

    def read(self, seq: int) -> bytes | None:
        """See `Store.read`."""
        return self._log.record(seq)

    def next_number(self, seq: int) -> int | None:
        """See `Store.next_number`. What was read has no hole."""
        return None if self._log.record(seq + 1) is None else seq + 1

    def origin(self) -> str:
        """Return nothing: nobody asks for it here."""
        return ""

    def heartbeat(self, incarnation: str) -> bytes | None:
        """See `Store.heartbeat`."""
        return self._log.heartbeat(incarnation)

    def heartbeats(self) -> list[str]:
        """See `Store.heartbeats`."""
        return self._log.heartbeats()

    def saved_state(self) -> None:
        """Return None: every record was read."""

    def topic_ids(self) -> None:
        """Return None: nobody asks for them here."""

    def create(self, seq: int, data: bytes) -> None:
        """Refuse."""
        _refuse()

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """Refuse."""
        _refuse()

    def put_saved_state(self, data: bytes) -> None:
        """Refuse."""
        _refuse()

    def put_topic_ids(self, data: bytes) -> None:
        """Refuse."""
        _refuse()


def _refuse() -> NoReturn:
    raise ControlUnavailable("This is a copy of a control log.", next_step="Write to the log itself.")
