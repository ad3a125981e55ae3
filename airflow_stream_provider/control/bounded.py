"""Calls that may hang: each runs in a daemon thread, and its caller gives up after a while.

A mount whose server is away lets a call hang for ever, and no exception comes. Nothing can stop such a call: it stays
in its thread, may have its effect later, and does not keep the process from ending. Every call sees the context
variables of its caller, which gets its errors with their own type.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any, TypeVar

from airflow_stream_provider.lifecycle.errors import StreamError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

# How the names of all these threads begin, and of all others that the runtime has: in a driver, any other thread that
# begins after the script is the script's.
OWN_THREADS = "airflow-stream-"
# Reads that run side by side; one that takes longer than SLOW_SECONDS does not count any more.
WIDTH, SLOW_SECONDS = 8, 2.0
# Threads of one `gather` that may hang at the same time.
MOST_HANGING = 200
# A wait that lasts so much longer than asked says that this process was kept from running: nobody else is to blame.
STALLED_SECONDS = 0.5
# Of `ManyPlaces`: calls to one place, and to all places that are not slow; and how long one waits for its turn.
OF_ONE_PLACE, OF_ALL_PLACES, TURN_SECONDS = 4, 32, 60.0


class NoAnswer(StreamError):
    """A call has not ended in time: most likely a mount hangs, or a server is away. It may end yet."""


class NotReached(StreamError):
    """There was no time left to make a call: nothing is known of what it asks."""


def start(fn: Callable[[], T], name: str) -> Future[T]:
    """Begin a call; on a machine without threads, RuntimeError is what it raises.

    An event loop waits with `asyncio.wrap_future`. Its own threads (`asyncio.to_thread`) are few, and keep it from
    closing.

    :param name: what is called; ends the thread's name.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    work = partial(contextvars.copy_context().run, fn)
    try:
        _thread(lambda: _ended(future, work)(), name)
    except RuntimeError as error:
        future.set_exception(error)
    return future


def call(fn: Callable[[], T], seconds: float, what: str, next_step: str = "") -> T:
    """Return what a call returns, or raise what it raises.

    :param what: what is asked; begins the error's sentence.
    :raises NoAnswer: it has not ended within so many seconds. Those in which this process itself did not run, on a
        machine that is busy or was suspended, do not count.
    """
    now = time.monotonic()
    until = now + seconds
    future = start(fn, what)
    while not future.done() and now < until:
        until += _stood_still([future], now, min(until - now, SLOW_SECONDS) / 4)
        now = time.monotonic()
    return _answer(future, seconds, what, next_step)


def gather(
    reads: Mapping[K, Callable[[], T]],
    total: float,
    each: float = math.inf,
    *,
    width: int = WIDTH,
    most: int = MOST_HANGING,
    left: dict[Any, Future[Any]] | None = None,
) -> dict[K, T | Exception]:
    """Make many calls side by side; return what each returned or raised, in the given order.

    The time in which this process itself does not run does not count.

    :param total: seconds after which none is begun any more: those that were not are `NotReached`.
    :param each: seconds after which one that runs is not waited for any more, but is a `NoAnswer`; default: until
        `total` is over.
    :param width: how many run side by side, without those that are slow.
    :param most: how many may hang before no other is begun.
    :param left: what was left behind, by key. One dict for several calls of this lets a read that hangs not be made
        again before it has ended, and count for `most`.
    """
    under_way: dict[Any, Future[Any]] = {} if left is None else left
    _forget_ended(under_way)
    waiting = deque(key for key in reads if key not in under_way)
    mine: dict[K, Future[T]] = {}
    began: dict[K, float] = {}
    until, more = time.monotonic() + total, each if math.isfinite(each) else 0.0
    while (now := time.monotonic()) < until + more:
        _forget_ended(under_way)
        began = {key: at for key, at in began.items() if not mine[key].done()}
        brisk = sum(now - at < SLOW_SECONDS for at in began.values())
        while now < until and waiting and brisk < width and len(under_way) < most:
            key = waiting.popleft()
            mine[key] = under_way[key] = start(reads[key], str(key))
            began[key], brisk = now, brisk + 1
        awaited = [mine[key] for key, at in began.items() if now - at <= each]
        if not awaited:
            break  # nothing that runs is waited for, and nothing more is begun
        late = _stood_still(awaited, now, min(until + more - now, each, SLOW_SECONDS) / 4)
        until, began = until + late, {key: at + late for key, at in began.items()}
    hangs = NoAnswer(
        f"It could not be read within {min(total, each):.0f} s: its folder does not answer.",
        next_step="Look at the mount of the control folder and of the checkpoint on this machine.",
    )
    no_time = NotReached(
        "There was no time left to read it.",
        next_step="Nothing has to be done if the next look reaches it. Otherwise the machine is too busy, or its disks "
        "too slow.",
    )
    unknown = dict.fromkeys(waiting, no_time)
    return {key: _found(mine[key], hangs) if key in mine else unknown.get(key, hangs) for key in reads}


class OnePlace:
    """Calls to one place, such as a store, in few threads that are used again. They are made in order.

    :param name: of the threads.
    :param width: how many calls are under way at once; the others wait for their turn.
    """

    def __init__(self, name: str, width: float = 1) -> None:
        self._name = name
        self._width = width
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        # The number of threads that have nothing to do; below 0: so many calls wait.
        self._threads = self._free = 0
        self._left: set[Future[Any]] = set()

    def hangs(self) -> bool:
        """Return whether a call that was given up is still under way."""
        with self._lock:
            self._left = {each for each in self._left if not each.done()}
            return bool(self._left)

    def submit(self, fn: Callable[[], T]) -> Future[T]:
        """Begin a call once it is its turn."""
        future: Future[T] = Future()
        with self._lock:
            if self._free <= 0 and self._threads < self._width:
                _thread(self._run, self._name)
                self._threads += 1
            else:
                self._free -= 1
        self._calls.put((future, partial(contextvars.copy_context().run, fn)))
        return future

    def call(self, fn: Callable[[], T], seconds: float, what: str) -> T:
        """Return what a call returns, or raise what it raises.

        :param seconds: how long it may take, waiting for its turn included.
        :param what: what is asked; begins the error's sentence.
        :raises NoAnswer: it has taken longer. If it had no turn by then, it never has.
        """
        future = self.submit(fn)
        wait((future,), seconds)
        if not future.done() and not future.cancel():
            with self._lock:
                self._left.add(future)
        return _answer(future, seconds, what)

    def close(self) -> None:
        """End the threads after the calls that were submitted; never waits."""
        with self._lock:
            for _ in range(self._threads):
                self._calls.put(None)

    def _run(self) -> None:
        while (each := self._calls.get()) is not None:
            future, work = each
            ended = _ended(future, work) if future.set_running_or_notify_cancel() else None
            # Before the caller goes on, so that its next call needs no other thread.
            with self._lock:
                self._free += 1
            if ended is not None:
                ended()


class ManyPlaces:
    """Calls to many places from one event loop, which must go on: a few of each place at once.

    :param no_answer: returns what to raise when there has been no answer for so many seconds.
    """

    def __init__(self, no_answer: Callable[[float], NoAnswer] | None = None) -> None:
        self._no_answer = no_answer or _no_answer
        self._slots: dict[Hashable, asyncio.Semaphore] = {}
        self._brisk = asyncio.Semaphore(OF_ALL_PLACES)
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def call(self, place: Hashable, key: Hashable, fn: Callable[[], T], seconds: float) -> T:
        """Return what a call returns; those who ask for the same meanwhile get the same answer.

        :param place: what may hang, such as a control root.
        :param key: what is asked of it. One that hangs is not asked again before it has ended.
        :param seconds: after which it is not waited for any more.
        :raises NoAnswer: that took longer.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._run(place, fn, seconds))
            task.add_done_callback(lambda done: self._forget(key, done))
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise self._no_answer(seconds)
        found: T = task.result()
        return found

    async def _run(self, place: Hashable, fn: Callable[[], T], seconds: float) -> T:
        asked = time.monotonic()
        async with self._slots.setdefault(place, asyncio.Semaphore(OF_ONE_PLACE)):
            async with self._brisk:
                if time.monotonic() - asked > TURN_SECONDS:
                    raise self._no_answer(seconds)  # its askers were told so long ago
                began = time.monotonic()
                reading = asyncio.wrap_future(start(fn, str(place)))
                await asyncio.wait({reading}, timeout=SLOW_SECONDS)
            found = await reading
        # What was read before a mount came back is of long ago.
        if time.monotonic() - began > seconds:
            raise self._no_answer(seconds)
        return found

    def _forget(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # perhaps no asker waits for it any more


def _thread(run: Callable[[], None], name: str) -> None:
    threading.Thread(target=run, name=f"{OWN_THREADS}{name}"[:60], daemon=True).start()


def _ended(future: Future[T], work: Callable[[], T]) -> Callable[[], None]:
    """Do the work; return what tells those who wait."""
    try:
        return partial(future.set_result, work())
    except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
        return partial(future.set_exception, error)


def _answer(future: Future[T], seconds: float, what: str, next_step: str = "") -> T:
    # Not `result(seconds)`: a TimeoutError of the call itself is another one.
    if future.done() and not future.cancelled():
        return future.result()
    raise _no_answer(seconds, what, next_step)


def _found(future: Future[Any], hangs: NoAnswer) -> Any:
    if not future.done():
        return hangs
    error = future.exception()
    if error is None:
        return future.result()
    # One such as SystemExit is about the thread of the call alone.
    return error if isinstance(error, Exception) else RuntimeError(f"It has ended with {error!r}.")


def _no_answer(seconds: float, what: str = "It", next_step: str = "") -> NoAnswer:
    return NoAnswer(f"{what} has not answered for {seconds:.0f} s.", next_step=next_step)


def _forget_ended(under_way: dict[Any, Future[Any]]) -> None:
    for key, future in list(under_way.items()):  # another thread may use it
        if future.done():
            under_way.pop(key, None)


def _stood_still(futures: Collection[Future[Any]], now: float, seconds: float) -> float:
    """Wait until one of these ends; return the seconds for which this process did not run since `now`."""
    wait(futures, seconds, FIRST_COMPLETED)
    late = time.monotonic() - now - seconds
    return late if late >= STALLED_SECONDS else 0.0
