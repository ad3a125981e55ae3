"""A plain PySpark application from Kafka to files: one stateless query, and one that counts.

    app_lines_kafka.py KAFKA ROOT [--dies]

With --dies the driver is killed when it is about to replace the second file of a checkpoint's `offsets`.
"""

import os
import signal
import sys
import time
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession

kafka, root = sys.argv[1:3]
replace = os.replace


def dies(new: str, old: str) -> None:
    folder, name = Path(old).parent, Path(old).name
    if folder.name == "offsets" and (folder / str(int(name) - 1)).stat().st_mtime > started:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    replace(new, old)


started = time.time()
if "--dies" in sys.argv:
    mock.patch.object(os, "replace", dies).start()

spark = SparkSession.builder.getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", kafka)
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "20")
    .load()
    .selectExpr("CAST(value AS STRING) AS id")
)
records.writeStream.queryName("lines").format("json").option("path", f"{root}/lines").option(
    "checkpointLocation", f"{root}/checkpoints/lines"
).start()
records.groupBy("id").count().writeStream.queryName("counts").format("noop").outputMode("update").option(
    "checkpointLocation", f"{root}/checkpoints/counts"
).start()
spark.streams.awaitAnyTermination()
