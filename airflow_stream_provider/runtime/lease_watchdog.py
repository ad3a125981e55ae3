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
from typing import Any

from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.ports import LeaseOver

HALT_CODE = 50
TICK_SECONDS = 0.2


class LeaseWatchdog:
    """A timer inside the driver's JVM that halts it with exit code 50 once the lease has run out; armed at once.

    The deadline is one absolute time, kept in the JVM and compared there with the monotonic clock every 0.2 s: a
    renewal from before a freeze cannot revive a driver after it. The timer is built from the JDK's method handles, so
    that there is no jar to ship. One thread postpones.

    :param lease_seconds: time from the moment a renewal was sent until the JVM halts.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease = lease_seconds
        view = jvm.jvm()
        self._ahead = _clock_difference(view)
        # One element, since py4j turns an AtomicLong into a Python int.
        self._nanos = view.java.util.concurrent.atomic.AtomicLongArray(1)
        check = _halt_when_past(view, self._nanos)  # takes seconds in a cold JVM, so only then the lease begins
        self._timer = view.org.apache.spark.util.ThreadUtils.newDaemonSingleThreadScheduledExecutor("lease-watchdog")
        self._deadline = time.monotonic() + lease_seconds
        self._nanos.set(0, self._in_jvm(self._deadline))
        tick = int(TICK_SECONDS * 1000)
        self._timer.scheduleAtFixedRate(check, tick, tick, view.java.util.concurrent.TimeUnit.MILLISECONDS)

    def postpone(self, sent_at_monotonic: float) -> None:
        """Move the halt to one lease after a renewal of the heartbeat was sent.

        :param sent_at_monotonic: `time.monotonic()` from before the renewal was sent, so that others, who saw it
            later, wait longer than this driver lives.
        :raises LeaseOver: the lease has run out; the JVM halts within 0.2 s.
        """
        if time.monotonic() >= self._deadline:
            raise LeaseOver("The lease had run out before it was renewed: this driver halts.")
        self._deadline = max(self._deadline, sent_at_monotonic + self._lease)
        self._nanos.set(0, self._in_jvm(self._deadline))

    def disarm(self) -> None:
        """Stop the timer: the driver exits by itself."""
        self._timer.shutdownNow()

    def _in_jvm(self, monotonic: float) -> int:
        return int(monotonic * 1e9) + self._ahead


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


def _halt_when_past(view: Any, nanos: Any) -> Any:
    """Return a java.lang.Runnable: `if (nanos.get(0) - System.nanoTime() < 0) Runtime.getRuntime().halt(50)`."""
    java, handles = view.java, view.java.lang.invoke.MethodHandles
    lookup, method_type = handles.publicLookup(), java.lang.invoke.MethodType.methodType
    long, void = java.lang.Long.TYPE, java.lang.Void.TYPE

    def cls(name: str) -> Any:
        return java.lang.Class.forName(name)

    def bound(handle: Any, *values: Any) -> Any:
        array = jvm.gateway().new_array(java.lang.Object, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return handles.insertArguments(handle, 0, array)

    read = lookup.findVirtual(
        cls("java.util.concurrent.atomic.AtomicLongArray"), "get", method_type(long, java.lang.Integer.TYPE)
    )
    deadline = bound(read, nanos, 0)
    now = lookup.findStatic(cls("java.lang.System"), "nanoTime", method_type(long))
    left = lookup.findStatic(cls("java.lang.Math"), "subtractExact", method_type(long, long, _classes(long)))
    for argument in (deadline, now):  # each takes the place of what is then the first parameter
        left = handles.collectArguments(left, 0, argument)
    duration = cls("java.time.Duration")
    past = handles.filterReturnValue(left, lookup.findStatic(duration, "ofNanos", method_type(duration, long)))
    past = handles.filterReturnValue(
        past, lookup.findVirtual(duration, "isNegative", method_type(java.lang.Boolean.TYPE))
    )
    halt = lookup.findVirtual(cls("java.lang.Runtime"), "halt", method_type(void, java.lang.Integer.TYPE))
    halt = bound(halt, java.lang.Runtime.getRuntime(), HALT_CODE)
    # Thread.yield() stands for "do nothing": MethodHandles.empty is not in Java 8.
    nothing = lookup.findStatic(cls("java.lang.Thread"), "yield", method_type(void))
    check = handles.guardWithTest(past, halt, nothing)
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(cls("java.lang.Runnable"), check)


def _classes(*classes: Any) -> Any:
    array = jvm.gateway().new_array(jvm.jvm().java.lang.Class, len(classes))
    for index, value in enumerate(classes):
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
