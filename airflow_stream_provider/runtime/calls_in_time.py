"""Calls that answer or fail in time, whatever is called."""

from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class CallsInTime:
    """Makes calls in daemon threads, and gives up on those that take too long.

    HDFS's client tries for up to 15 minutes to reach a NameNode that is away, and the thread that waits for it may be
    the one that renews the lease. While a call is overdue all others fail at once: they would go as that one went.

    :param name: how the names of the threads begin.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]] = []
        self._overdue: set[Future[Any]] = set()

    def do(self, call: Callable[[], T], what: str, seconds: float) -> T:
        """Return what the call returns, or raise what it raises.

        :param what: what is asked, for the error.
        :raises TimeoutError: it has not ended within so many seconds, or an earlier one still has not. Either may yet.
        """
        with self._lock:
            self._overdue = {each for each in self._overdue if not each.done()}
            stuck = bool(self._overdue)
            thread = self._idle.pop() if self._idle and not stuck else None
        if stuck:
            raise TimeoutError(errno.ETIMEDOUT, "its storage has not answered an earlier question yet", what)
        future: Future[T] = Future()
        (thread or self._thread()).put((future, call))
        # Not `result(seconds)`: a TimeoutError of the call itself is another one.
        wait((future,), seconds)
        if future.done():
            return future.result()
        with self._lock:
            self._overdue.add(future)
        raise TimeoutError(errno.ETIMEDOUT, f"its storage has not answered for {seconds:.0f} s", what)

    def _thread(self) -> queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]:
        calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

        def run() -> None:
            while True:
                future, call = calls.get()
                ended: Callable[[], None]
                try:
                    ended = partial(future.set_result, call())
                except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                    ended = partial(future.set_exception, error)
                with self._lock:
                    self._idle.append(calls)
                ended()

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return calls
