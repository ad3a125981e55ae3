"""Processes on this machine: Spark as it is installed, and how a local driver's processes are found and ended.

The driver gets an environment variable (`MARK`) that all its child processes inherit.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from airflow_stream_provider.lifecycle.errors import ClusterError

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


def commands(drivers: Iterable[tuple[psutil.Process, str]]) -> dict[str, list[list[str]]]:
    """Return the command lines of what `marked` has found, by submission id."""
    found: dict[str, list[list[str]]] = {}
    for process, submission in drivers:
        found.setdefault(submission, []).append(command(process))
    return found


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
        if _SPARK_SUBMIT in command(process):
            with suppress(psutil.NoSuchProcess):
                process.terminate()
    _wait(submission)
    while left := [process for process in of(submission) if not _is_detach(process)]:
        _kill(left)
        time.sleep(0.05)
    # detach.py stores the exit code and ends by itself.
    _wait(submission)
    _kill(of(submission))


def _wait(submission: str) -> None:
    deadline = time.monotonic() + GRACE
    while of(submission) and time.monotonic() < deadline:
        time.sleep(0.1)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _is_detach(process: psutil.Process) -> bool:
    return any(os.path.basename(word) == "detach.py" for word in command(process)[1:3])


def command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty when it has ended or does not show it."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


log = logging.getLogger(__name__)

# All that a driver gets of Airflow's environment; the rest may hold the passwords of its database, its connections and
# its secrets backend. A script that needs more has it declared in its stream's `environment`.
_PASSED_ON = re.compile(r"PATH|HOME|LANG|LC_[A-Z]+|TZ|JAVA_HOME|SPARK_\w+|PYSPARK_\w+")


def home() -> Path:
    """Return the folder of Spark.

    :raises ClusterError: there is none.
    """
    # Not imported: that takes a second, and pyspark would stay in the Airflow worker's memory.
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in (*places, os.environ.get("SPARK_HOME", "")):
        if place and (Path(place) / "bin" / "spark-submit").is_file():
            return Path(place)
    raise ClusterError(
        "Spark is not installed on this machine: neither pyspark nor SPARK_HOME has bin/spark-submit.",
        next_step="Install airflow-stream-provider[pyspark] beside Airflow, or use a standalone cluster.",
    )


def warn_of_two_versions() -> None:
    """Log a warning if pyspark and pyspark-client, which have the same files, are of two versions.

    Drivers take pyspark from its zip, which only one of the two has: they run all the same.
    """
    found = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return
    if len(set(found.values())) > 1:
        log.warning(
            "pyspark %s and pyspark-client %s are installed beside Airflow. They overwrite each other's files, so "
            "`import pyspark` finds a mix. Uninstall both, then install one version of both: "
            "pip install pyspark==%s pyspark-client==%s",
            *found.values(),
            *[found["pyspark-client"]] * 2,  # pyspark has each of its versions; it does not have each of pyspark's
        )


def check_java() -> None:
    """Check that Spark will find a Java.

    :raises ClusterError: there is none.
    """
    java_home = os.environ.get("JAVA_HOME")
    if not (Path(java_home, "bin", "java").is_file() if java_home else shutil.which("java")):
        raise ClusterError(
            f"There is no Java in JAVA_HOME, {java_home}."
            if java_home
            else "There is no `java` on this machine's PATH.",
            next_step="Install Java 17 and set JAVA_HOME for the Airflow workers.",
        )


def environment(spark: Path, folder: Path, declared: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a driver: little of Airflow's, what its release declares, and the mark of its folder.

    :param spark: folder of Spark.
    :param folder: of the driver.
    """
    mine = {key: value for key, value in os.environ.items() if _PASSED_ON.fullmatch(key)}
    mine.setdefault("PYSPARK_PYTHON", sys.executable)
    mine.setdefault("PYSPARK_DRIVER_PYTHON", mine["PYSPARK_PYTHON"])
    return {**mine, **declared, "SPARK_HOME": str(spark), MARK: str(folder)}
