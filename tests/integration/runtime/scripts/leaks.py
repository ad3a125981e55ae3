"""Leaks heap once the file `go` is there, by the clock; state and the log of a file sink grow as well."""

import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_stream_provider.runtime import vitals

# A minute of a driver in a second.
vitals.VITALS_SECONDS, vitals.PAUSES = 1.0, 1.0
MB_A_SECOND = 1.5

root, checkpoints = map(Path, sys.argv[1:])
spark = SparkSession.builder.appName("leaks").getOrCreate()
java: Any = spark._jvm
kept = java.java.util.ArrayList()


def leak() -> None:
    while not (root / "go").exists():
        time.sleep(0.2)
    began = time.monotonic()
    while True:
        while kept.size() < (time.monotonic() - began) * MB_A_SECOND:
            kept.add(java.java.nio.ByteBuffer.allocate(2**20))
        time.sleep(0.2)


threading.Thread(target=leak, daemon=True).start()


def rows(a_second: int) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", a_second).option("numPartitions", 1).load()


keys = (
    rows(40)
    .selectExpr("rpad(string(value), 5000, 'x') AS key")
    .dropDuplicates(["key"])
    .writeStream.queryName("keys")
    .format("noop")
)
keys.option("checkpointLocation", f"{checkpoints}/keys").trigger(processingTime="2 seconds").start()
files = rows(10).repartition(4).writeStream.queryName("files").format("json").option("path", f"{root}/out")
files.option("checkpointLocation", f"{checkpoints}/files").trigger(processingTime="2 seconds").start()
spark.streams.awaitAnyTermination()
