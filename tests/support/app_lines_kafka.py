"""A plain PySpark application from Kafka to files: one stateless query, and one that counts.

    app_lines_kafka.py KAFKA ROOT [--dies-first | --dies | --dies-after]

The driver is killed when it is about to replace the first or the second file of a checkpoint's `offsets`, or when both
are replaced.
"""

import os
import signal
import sys
from pathlib import Path
from unittest import mock

from pyspark.sql import SparkSession

kafka, root = sys.argv[1:3]
replace = os.replace


def dies(new: str, old: str) -> None:
    if Path(old).parent.name != "offsets":
        replace(new, old)
        return
    if "--dies-first" in sys.argv or ("--dies" in sys.argv and replaced):
        kill()
    replace(new, old)
    replaced.append(old)
    if len(replaced) == 2:
        kill()


def kill() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


replaced: list[str] = []
if sys.argv[3:]:
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
