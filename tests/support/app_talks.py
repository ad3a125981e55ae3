"""Stands in for the launcher: a driver that writes 20 kB at a time, and keeps its logs small as the real one does."""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path

from pyspark import SparkContext

from airflow_stream_provider.control.releases import LOG_SIZE
from airflow_stream_provider.runtime.driver_folders import install, keep_logs_small
from airflow_stream_provider.runtime.jvm import jvm

install(Path(__file__).parent)
SparkContext._ensure_initialized()
size = jvm().org.apache.spark.SparkConf().getSizeAsBytes(LOG_SIZE, "0")
for number in count():
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        print(f"{'x' * 20_000}\n{name} {number}.", file=stream, flush=True)
    keep_logs_small(size)
    time.sleep(0.05)
