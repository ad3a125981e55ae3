"""Find and end the processes of a local driver.

The driver gets an environment variable (`MARK`) that all its child processes inherit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil

# Its value is the submission id, a folder used by one driver only. A process with a reused pid does not have it.
MARK = "AIRFLOW_STREAM_SUBMISSION"

# Seconds between SIGTERM and SIGKILL, as on a standalone worker (spark.worker.driverTerminateTimeout).
GRACE = 10.0
_SPARK_SUBMIT = "org.apache.spark.deploy.SparkSubmit"


def marked() -> Iterator[tuple[psutil.Process, str]]:
    """Yield all live processes of local drivers, each with its submission id."""
    for process in psutil.process_iter():
        try:
            submission = process.environ().get(MARK)
            if submission and process.status() != psutil.STATUS_ZOMBIE:
                yield process, submission
        except (psutil.Error, OSError):
            # The process has ended, or belongs to another user and cannot be a driver of ours.
            continue


def of(submission: str) -> list[psutil.Process]:
    """Return the live processes of one driver: detach.py, the JVM and all Python processes below it."""
    for _ in range(2):
        # Looks twice before it returns none: during the first look a process may fork and end before it is seen.
        if found := [process for process, mark in marked() if mark == submission]:
            return found
    return []


def end(submission: str) -> None:
    """End all processes of a driver.

    Only the JVM gets SIGTERM, because its shutdown hooks may still need Python. After 10 s all get SIGKILL.
    """
    for process in of(submission):
        if _is_spark(process):
            _send(process, terminate=True)
    _wait(submission, GRACE)
    while left := [process for process in of(submission) if not _is_detach(process)]:
        for process in left:
            _send(process, terminate=False)
        time.sleep(0.05)
    # detach.py stores the exit code and ends by itself.
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
    return _SPARK_SUBMIT in command(process)


def _is_detach(process: psutil.Process) -> bool:
    return any(os.path.basename(word) == "detach.py" for word in command(process)[1:3])


def command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty when it has ended or does not show it."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
