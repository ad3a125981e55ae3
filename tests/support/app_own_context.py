"""Stands in for the launcher: names the application as the runtime does, then makes a SparkContext as a script may."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path


def end_with_the_jvm(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.1)
    os._exit(1)


def main() -> None:
    threading.Thread(target=end_with_the_jvm, args=(os.getppid(),), daemon=True).start()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    found, how, name = sys.argv[sys.argv.index("--") + 1 :]
    if name:
        from airflow_stream_provider.runtime.driver_process import _name_application

        SparkContext._ensure_initialized()
        _name_application(name)
    if how == "appName":
        context = SparkContext(appName="x")
    elif how == "conf":
        context = SparkContext(conf=SparkConf().setAppName("x"))
    else:
        context = SparkSession.builder.appName("x").getOrCreate().sparkContext
    context.parallelize(range(2), 2).count()  # its executors are there
    Path(f"{found}.part").write_text(context.applicationId)
    Path(f"{found}.part").rename(found)
    while True:
        time.sleep(60)


main()
