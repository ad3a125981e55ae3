"""The lease watchdog ends a driver that can no longer prove that it holds its stream.

It has two halves, because either of a driver's two processes can freeze or die alone:

- in the JVM, a timer that halts it unless Python postpones that in time: Python frozen or stuck, or the whole
  process tree frozen and woken again;
- in Python, a thread that ends the process when the JVM is gone: the Python process of a killed driver otherwise
  runs the user's code for as long as that does not call Spark.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import Any, NamedTuple

from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.ports import LeaseOver, MachineClock

HALT_CODE = 50
TICK_SECONDS = 0.2
CLOCK = MachineClock()


class LeaseWatchdog:
    """A timer inside the driver's JVM that halts it with exit code 50 once the lease has run out; armed at once.

    The deadline is one absolute time, kept in the JVM and compared there every 0.2 s: a renewal from before a freeze
    cannot revive a driver after it. It is kept twice, for the monotonic clock, which cannot be set, and for the wall
    clock, which also goes on while the machine is suspended: whichever gets there first ends the lease. Python looks at
    a third, the time since the machine was booted. So a wall clock that is set forward by a lease or more halts a
    driver. A pause that no clock of a machine shows is not seen: that of a virtual machine by its host, until its clock
    is set.

    The timer is built from the JDK's method handles, so that there is no jar to ship. One thread postpones.

    :param lease_seconds: time from the moment a renewal was sent until the JVM halts.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease = lease_seconds
        view = jvm.jvm()
        self._ahead = _clock_difference(view)
        # By the JVM's monotonic clock (ns) and by the wall clock (ms).
        self._deadlines = view.java.util.concurrent.atomic.AtomicLongArray(2)
        # Takes seconds in a cold JVM, so that only then the lease begins.
        self._check = _halt_when_past(view, self._deadlines)
        self._timer = view.org.apache.spark.util.ThreadUtils.newDaemonSingleThreadScheduledExecutor("lease-watchdog")
        self._end = self._ends(CLOCK.monotonic() + lease_seconds)
        self._set()
        self._ticks = self._schedule()

    def postpone(self, sent_at_monotonic: float) -> None:
        """Move the halt to one lease after a renewal of the heartbeat was sent.

        :param sent_at_monotonic: `MachineClock.monotonic()` from before the renewal was sent, so that others, which saw
            it later, wait longer than this driver lives.
        :raises LeaseOver: the lease has run out, by one of the clocks; the JVM halts within 0.2 s.
        """
        now = _End(CLOCK.monotonic(), time.monotonic(), CLOCK.time())
        if any(clock >= end for clock, end in zip(now, self._end)):
            raise LeaseOver("The lease had run out before it was renewed: this driver halts.")
        self._end = self._ends(max(self._end.boot, sent_at_monotonic + self._lease))
        self._set()
        if self._ticks.isDone():
            # Java ends a timer silently with the first error in it, such as that of a full heap.
            self._ticks = self._schedule()

    def disarm(self) -> None:
        """Stop the timer: the driver exits by itself."""
        self._timer.shutdownNow()

    def _schedule(self) -> Any:
        tick = int(TICK_SECONDS * 1000)
        milliseconds = jvm.jvm().java.util.concurrent.TimeUnit.MILLISECONDS
        return self._timer.scheduleAtFixedRate(self._check, tick, tick, milliseconds)

    def _ends(self, boot: float) -> _End:
        # A machine that is suspended between two of these readings makes the end earlier, not later.
        monotonic, wall = time.monotonic(), CLOCK.time()
        left = boot - CLOCK.monotonic()
        return _End(boot, monotonic + left, wall + left)

    def _set(self) -> None:
        self._deadlines.set(0, int(self._end.monotonic * 1e9) + self._ahead)
        self._deadlines.set(1, int(self._end.wall * 1e3))


class _End(NamedTuple):
    """When the lease ends, by three clocks of this machine."""

    boot: float
    monotonic: float
    wall: float


def _clock_difference(view: Any) -> int:
    """Return by how many nanoseconds the JVM's monotonic clock is ahead of Python's, rounded down.

    Both are the system's monotonic clock, so that they run at the same rate; only their zero may differ.
    """
    best = None
    for _ in range(5):
        before = time.monotonic_ns()
        there = int(view.java.lang.System.nanoTime())
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, there - after)
    assert best is not None
    return best[1]


def _halt_when_past(view: Any, deadlines: Any) -> Any:
    """Return a java.lang.Runnable that halts the JVM once a deadline has passed.

    `if (deadlines.get(0) - System.nanoTime() < 0 || deadlines.get(1) - System.currentTimeMillis() < 0)
    Runtime.getRuntime().halt(50)`.
    """
    java, handles = view.java, view.java.lang.invoke.MethodHandles
    lookup, method_type = handles.publicLookup(), java.lang.invoke.MethodType.methodType
    long, void = java.lang.Long.TYPE, java.lang.Void.TYPE

    def cls(name: str) -> Any:
        return java.lang.Class.forName(name)

    def bound(handle: Any, *values: Any) -> Any:
        return handles.insertArguments(handle, 0, _array(java.lang.Object, *values))

    read = lookup.findVirtual(
        cls("java.util.concurrent.atomic.AtomicLongArray"), "get", method_type(long, java.lang.Integer.TYPE)
    )
    duration = cls("java.time.Duration")

    def past(index: int, clock: str) -> Any:
        left = lookup.findStatic(
            cls("java.lang.Math"), "subtractExact", method_type(long, long, _array(java.lang.Class, long))
        )
        now = lookup.findStatic(cls("java.lang.System"), clock, method_type(long))
        for argument in (bound(read, deadlines, index), now):
            left = handles.collectArguments(left, 0, argument)  # in the place of what is then the first parameter
        # Only the sign counts, so that the unit does not matter.
        left = handles.filterReturnValue(left, lookup.findStatic(duration, "ofNanos", method_type(duration, long)))
        return handles.filterReturnValue(
            left, lookup.findVirtual(duration, "isNegative", method_type(java.lang.Boolean.TYPE))
        )

    halt = lookup.findVirtual(cls("java.lang.Runtime"), "halt", method_type(void, java.lang.Integer.TYPE))
    halt = bound(halt, java.lang.Runtime.getRuntime(), HALT_CODE)
    # Thread.yield() stands for "do nothing": MethodHandles.empty is not in Java 8.
    nothing = lookup.findStatic(cls("java.lang.Thread"), "yield", method_type(void))
    check = handles.guardWithTest(past(1, "currentTimeMillis"), halt, nothing)
    check = handles.guardWithTest(past(0, "nanoTime"), halt, check)
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(cls("java.lang.Runnable"), check)


def _array(kind: Any, *values: Any) -> Any:
    array = jvm.gateway().new_array(kind, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def end_with_jvm(pid: int | None = None) -> threading.Thread:
    """Start the thread that ends this Python process, with exit code 50, within a second of the JVM's end.

    Works whichever of the two started the other: under spark-submit the JVM is the parent, under
    `python script.py` Python is. Nothing is cleaned up: user code that is still running must stop.

    :param pid: the JVM's process id; default: that of this driver's gateway.
    """
    if pid is None:
        # Not ProcessHandle, which is not in Java 8; the name is "pid@host".
        name = jvm.jvm().java.lang.management.ManagementFactory.getRuntimeMXBean().getName()
        pid = int(name.partition("@")[0])
    thread = threading.Thread(target=_end_after, args=(pid,), name="end-with-jvm", daemon=True)
    thread.start()
    return thread


def _end_after(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or older than 5.3, or gone already
        while _runs(pid):
            time.sleep(TICK_SECONDS)
    else:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)  # ready when the process has ended; sleeps without the GIL
        poll.poll()
    os._exit(HALT_CODE)


def _runs(pid: int) -> bool:
    """Whether the process runs; one that has ended but was not waited for by its parent, us, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return True  # not our child, so it is no zombie that waits for us
