"""Stands in for the launcher: a plain PySpark driver that says what it found, and stays until it is ended."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path


def end_with_the_jvm(parent: int) -> None:
    """What the runtime's own watchdog does: a Python whose JVM is gone must not go on."""
    while os.getppid() == parent:
        time.sleep(0.1)
    os._exit(1)


def count_on_executors() -> tuple[int, str, str]:
    from pyspark.sql import SparkSession

    def region(_: int) -> str:
        return os.environ.get("REGION", "")

    def double(number: int) -> int:
        import helper  # type: ignore[import-not-found]  # a py-file of the job

        return int(helper.double(number))

    spark = SparkSession.builder.getOrCreate()
    numbers = spark.sparkContext.parallelize(range(4), 2)
    return int(numbers.map(double).sum()), numbers.map(region).first(), spark.sparkContext.applicationId


def main() -> None:
    threading.Thread(target=end_with_the_jvm, args=(os.getppid(),), daemon=True).start()
    found, code = sys.argv[sys.argv.index("--") + 1 :]
    if code.startswith("session-"):  # YARN takes a driver that never makes one for failed
        from pyspark.sql import SparkSession

        SparkSession.builder.getOrCreate()
    if code != "stay":
        sys.exit(int(code.removeprefix("session-")))
    total, region, application = count_on_executors()
    facts = {"total": total, "pid": os.getpid(), "regions": [os.environ.get("REGION", ""), region]}
    facts |= {"application": application}
    Path(f"{found}.part").write_text(json.dumps(facts))
    Path(f"{found}.part").rename(found)
    while True:
        time.sleep(60)


main()
