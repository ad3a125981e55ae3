"""A single background thread that never keeps its process from ending, for calls that may hang.

`asyncio.to_thread`, in contrast, takes a thread of the event loop's own pool: a few calls that hang would leave none to
others, and keep the loop from closing.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThread(Executor):
    """Runs calls one after another in one daemon thread.

    `ThreadPoolExecutor(1)`, in contrast, joins its thread when the process ends: a call that hangs would keep it alive.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        """Run a call after those before it."""
        future: Future[T] = Future()
        self._calls.put((future, lambda: call(*args, **options)))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """End the thread after the calls that were submitted; never waits."""
        self._calls.put(None)

    def _run(self) -> None:
        while (each := self._calls.get()) is not None:
            future, call = each
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                future.set_exception(error)


async def in_daemon_thread(name: str, call: Callable[..., T], *args: Any) -> T:
    """Run a call in a daemon thread of its own and wait for it; whoever stops waiting leaves the thread behind.

    :param name: of the thread.
    """
    thread = DaemonThread(name)
    try:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(thread, contextvars.copy_context().run, call, *args)
    finally:
        thread.shutdown()
