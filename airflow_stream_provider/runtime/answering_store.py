"""A store whose calls answer or fail in time, whatever the file system under it does.

A hard-mounted NFS server that is away lets calls hang, and no exception ever comes: the agent would renew nothing,
pause nothing and be halted, and so would every standby.
"""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.control.bounded import NoAnswer, OnePlace
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.errors import ControlUnavailable


def _in_time(name: str) -> Any:
    """Return the method of this name, which has to answer in time."""

    def method(self: AnsweringStore, *args: Any) -> Any:
        return self._do(name, *args)

    return method


class AnsweringStore:
    """A store behind a deadline; implements `Store`.

    One call at a time is under way. While one hangs, all others fail, so that nothing overtakes it: when the file
    system is back, a heartbeat from before does not replace a later one. A call that had no turn by its deadline is
    never made: a record must not be written after its writer has decided again. A `create` that was given up may still
    arrive, like one whose answer was lost.

    :param seconds: how long a call may take, waiting for its turn included; then it raises ControlUnavailable.
    """

    create = _in_time("create")
    read = _in_time("read")
    next_number = _in_time("next_number")
    origin = _in_time("origin")
    put_heartbeat = _in_time("put_heartbeat")
    heartbeat = _in_time("heartbeat")
    heartbeats = _in_time("heartbeats")
    put_topic_ids = _in_time("put_topic_ids")
    topic_ids = _in_time("topic_ids")
    put_saved_state = _in_time("put_saved_state")
    saved_state = _in_time("saved_state")

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._place = OnePlace("control-log")

    def _do(self, name: str, *args: Any) -> Any:
        try:
            return self._place.call(lambda: getattr(self._store, name)(*args), self._seconds, "The control log")
        except NoAnswer as error:
            raise ControlUnavailable(
                error.message,
                next_step="Check its file server, or its brokers. Nothing is lost: the drivers wait for it.",
            ) from None
