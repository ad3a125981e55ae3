"""The processes of a local driver, recognised by a mark in the environment that every child inherits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil

# Holds the submission, which is the path of the driver's folder: no two drivers share it, and a re-used pid lacks it.
MARK = "AIRFLOW_STREAM_SUBMISSION"

# As long as a standalone worker waits between SIGTERM and SIGKILL (spark.worker.driverTerminateTimeout), s.
GRACE = 10.0
_SPARK_SUBMIT = "org.apache.spark.deploy.SparkSubmit"


def marked() -> Iterator[tuple[psutil.Process, str]]:
    """Yield the live processes of local drivers with their submission."""
    for process in psutil.process_iter():
        try:
            submission = process.environ().get(MARK)
            if submission and process.status() != psutil.STATUS_ZOMBIE:
                yield process, submission
        except (psutil.Error, OSError):
            # Gone meanwhile, or another user's, whose drivers are not ours.
            continue


def of(submission: str) -> list[psutil.Process]:
    """Return the live processes of one submission: the waiting one, the JVM, and every Python below it."""
    for _ in range(2):
        # A second look before saying "none": a process may have forked during the first and died before its turn.
        if found := [process for process, mark in marked() if mark == submission]:
            return found
    return []


def end(submission: str) -> None:
    """End all processes of a submission: SIGTERM to the JVM, whose hooks may still need Python, then SIGKILL to all."""
    for process in of(submission):
        if _is_spark(process):
            _send(process, terminate=True)
    _wait(submission, GRACE)
    while left := [process for process in of(submission) if not _is_waiting(process)]:
        for process in left:
            _send(process, terminate=False)
        time.sleep(0.05)
    # The waiting process notes the exit code and ends by itself.
    _wait(submission, GRACE)
    for process in of(submission):
        _send(process, terminate=False)


def _wait(submission: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while of(submission) and time.monotonic() < deadline:
        time.sleep(0.1)


def _send(process: psutil.Process, *, terminate: bool) -> None:
    try:
        if terminate:
            process.terminate()
        else:
            process.kill()
    except psutil.NoSuchProcess:
        pass


def _is_spark(process: psutil.Process) -> bool:
    return _SPARK_SUBMIT in _command(process)


def _is_waiting(process: psutil.Process) -> bool:
    return any(os.path.basename(word) == "detach.py" for word in _command(process)[1:3])


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
