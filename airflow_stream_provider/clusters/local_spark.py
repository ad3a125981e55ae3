"""Spark as it is installed on this machine, and the environment that a driver here gets."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from airflow_stream_provider.clusters import processes
from airflow_stream_provider.lifecycle.errors import ClusterError

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
    return {**mine, **declared, "SPARK_HOME": str(spark), processes.MARK: str(folder)}
