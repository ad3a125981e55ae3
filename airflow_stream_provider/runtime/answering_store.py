"""A store whose calls answer or fail in time, whatever the file system under it does.

A hard-mounted NFS server that is away lets calls hang, and no exception ever comes: the agent would renew nothing,
pause nothing and be halted, and so would every standby. Here a thread of its own makes the calls, and who waits for it
gives up after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

from airflow_stream_provider.control.daemon_thread import DaemonThread
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.errors import ControlUnavailable


class AnsweringStore:
    """A store behind a deadline; implements `Store`.

    One call at a time is under way. While one hangs, all others fail, so that nothing overtakes it: when the file
    system is back, a heartbeat from before does not replace a later one. A `create` that was given up may still arrive,
    like one whose answer was lost.

    :param seconds: how long a call may take, waiting for its turn included; then it raises ControlUnavailable.
    """

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._thread = DaemonThread("airflow-stream-control-log")

    def create(self, seq: int, data: bytes) -> None:
        """See `Store.create`."""
        self._do(lambda: self._store.create(seq, data))

    def read(self, seq: int) -> bytes | None:
        """See `Store.read`."""
        found: bytes | None = self._do(lambda: self._store.read(seq))
        return found

    def next_number(self, seq: int) -> int | None:
        """See `Store.next_number`."""
        found: int | None = self._do(lambda: self._store.next_number(seq))
        return found

    def origin(self) -> str:
        """See `Store.origin`."""
        found: str = self._do(lambda: self._store.origin())
        return found

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """See `Store.put_heartbeat`."""
        self._do(lambda: self._store.put_heartbeat(incarnation, data))

    def heartbeat(self, incarnation: str) -> bytes | None:
        """See `Store.heartbeat`."""
        found: bytes | None = self._do(lambda: self._store.heartbeat(incarnation))
        return found

    def heartbeats(self) -> list[str]:
        """See `Store.heartbeats`."""
        found: list[str] = self._do(lambda: self._store.heartbeats())
        return found

    def put_topic_ids(self, data: bytes) -> None:
        """See `Store.put_topic_ids`."""
        self._do(lambda: self._store.put_topic_ids(data))

    def topic_ids(self) -> bytes | None:
        """See `Store.topic_ids`."""
        found: bytes | None = self._do(lambda: self._store.topic_ids())
        return found

    def put_saved_state(self, data: bytes) -> None:
        """See `Store.put_saved_state`."""
        self._do(lambda: self._store.put_saved_state(data))

    def saved_state(self) -> bytes | None:
        """See `Store.saved_state`."""
        found: bytes | None = self._do(lambda: self._store.saved_state())
        return found

    def _do(self, work: Callable[[], Any]) -> Any:
        call = self._thread.submit(work)
        # Not `result(seconds)`: a TimeoutError of the call itself is another one.
        wait((call,), self._seconds)
        if call.done():
            return call.result()
        # One that has not begun never will: a record must not be written after its writer has decided again.
        call.cancel()
        raise ControlUnavailable(
            f"The control log has not answered for {self._seconds:.0f} s.",
            next_step="Check its file server, or its brokers. Nothing is lost: the drivers wait for it.",
        )
