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


def count_on_executors() -> int:
    from pyspark.sql import SparkSession

    def double(number: int) -> int:
        import helper  # type: ignore[import-not-found]  # a py-file of the job

        return int(helper.double(number))

    spark = SparkSession.builder.getOrCreate()
    return int(spark.sparkContext.parallelize(range(4), 2).map(double).sum())


def main() -> None:
    threading.Thread(target=end_with_the_jvm, args=(os.getppid(),), daemon=True).start()
    found, code = sys.argv[sys.argv.index("--") + 1 :]
    if code != "stay":
        sys.exit(int(code))
    Path(f"{found}.part").write_text(json.dumps({"total": count_on_executors(), "pid": os.getpid()}))
    Path(f"{found}.part").rename(found)
    while True:
        time.sleep(60)


main()
