"""The work of a driver beside the agent's turns: the agent's work of the moment, and small jobs again and again."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from airflow_stream_provider.control.bounded import OWN_THREADS, OnePlace
from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, StreamError

TICK_SECONDS = 0.2
# So long the next job waits for the end of one.
BRISK_SECONDS = 0.05
# A job that takes longer is logged.
LONG_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass
class _Job:
    name: str
    seconds: float
    work: Callable[[], float | None]
    due: float = 0.0
    began: float | None = None
    late: bool = False


class SideThread:
    """Does a driver's small jobs, each again and again. Nothing that decides about holding waits for it.

    A job that fails is logged, and done again. One that takes long, as of a storage that hangs, holds up no other: the
    jobs are done in threads that are used again, and a further one begins only while all are busy.
    """

    def __init__(self) -> None:
        self._jobs: list[_Job] = []
        self._calls = OnePlace("side-job", math.inf)

    def every(self, seconds: float, name: str, work: Callable[[], float | None]) -> None:
        """Do this job from the start on, so many seconds after its last end; a job may return other seconds."""
        self._jobs.append(_Job(name, seconds, work))

    def start(self) -> None:
        """Do the jobs from now on."""
        threading.Thread(target=self._run, name=f"{OWN_THREADS}side", daemon=True).start()

    def _run(self) -> None:
        while True:
            for job in self._jobs:
                self._begin_if_due(job)
            time.sleep(TICK_SECONDS)

    def _begin_if_due(self, job: _Job) -> None:
        now = time.monotonic()
        if job.began is None and now >= job.due:
            job.began, job.late = now, False
            try:
                # Most take milliseconds, and then one thread is enough.
                wait([self._calls.submit(partial(self._do, job))], BRISK_SECONDS)
            except RuntimeError as error:  # no thread can be begun now; the jobs may not end with that
                log.warning("The job %s is done later: %s", job.name, error)
                job.due, job.began = now + job.seconds, None
        elif job.began is not None and not job.late and now - job.began > LONG_SECONDS:
            job.late = True
            log.warning("The job %s has taken more than %.0f s.", job.name, LONG_SECONDS)

    def _do(self, job: _Job) -> None:
        seconds = None
        try:
            seconds = job.work()
        except Exception:  # whatever it is, such as of a JVM that is going: the other jobs must not end with it
            log.exception("The job %s failed", job.name)
        finally:
            job.due = time.monotonic() + (job.seconds if seconds is None else seconds)
            job.began = None


class Work(Protocol):
    """The agent's work of the moment; a `threading.Thread` in a driver."""

    def is_alive(self) -> bool:
        """Whether the work is under way."""


# Begins the work in the background, and lets the agent take its next turn as soon as the work is over.
Spawn = Callable[[Callable[[], None]], Work]


class Background:
    """The background work of one incarnation.

    `work`: what was begun last; None when it is known to be over.

    :param fail: ends the driver as failed, with a reason and an error; called in the background.
    :param halt: ends the process without another record.
    """

    def __init__(self, spawn: Spawn, fail: Callable[[str, BaseException], None], halt: Callable[[], None]) -> None:
        self.work: Work | None = None
        self._rehearses = False
        self._spawn = spawn
        self._fail = fail
        self._halt = halt

    @property
    def is_busy(self) -> bool:
        """Whether the work is under way."""
        return self.work is not None and self.work.is_alive()

    @property
    def starts_or_stops(self) -> bool:
        """Whether queries are being started or stopped; what a rehearsal does is neither."""
        return self.is_busy and not self._rehearses

    def begin(self, work: Callable[[], None], *, rehearses: bool = False) -> None:
        """Begin this work; a driver that gets no thread for it halts. It would go on to hold, and run nothing."""
        self._rehearses = rehearses
        try:
            self.work = self._spawn(partial(self._do, work))
        except RuntimeError as error:
            log.error("%s: this driver halts.", error)
            self._halt()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            try:
                work()
            except ControlLogReplaced:
                raise  # there is no log to say `failed` in
            except Exception as error:  # whatever it is: a driver that fails says so in the log of the stream
                log.exception("Failed in the background")
                self._fail(str(error) if isinstance(error, StreamError) else "The runtime itself failed", error)
        except ControlLogReplaced as error:
            log.error("%s This driver halts.", error)
            self._halt()
