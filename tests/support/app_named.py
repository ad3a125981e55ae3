"""Makes a SparkContext under the name that its argument says, and stays: a driver that no control log knows."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

SparkSession.builder.appName(sys.argv[1]).getOrCreate()
while True:
    time.sleep(60)
