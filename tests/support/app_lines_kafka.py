"""A plain PySpark application from Kafka to files: one stateless query, and one that counts.

    app_lines_kafka.py KAFKA ROOT CHECKPOINTS [--dies-first | --dies | --dies-after]

The first driver is killed when it is about to replace the first or the second file of a checkpoint's `offsets`, or when
both are replaced.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

kafka, root, checkpoints = sys.argv[1:4]
died = Path(root, "died")


def dying(files: Any, when: str) -> None:
    replace = files.replace
    replaced: list[object] = []
    last = ["--dies-first", "--dies", "--dies-after"].index(when)

    def dies(self: object, path: object, data: bytes) -> None:
        if len(replaced) == last:
            kill()
        replace(self, path, data)
        replaced.append(path)
        if len(replaced) == last == 2:
            kill()

    mock.patch.object(files, "replace", dies).start()


def kill() -> None:
    died.touch()
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


for option in sys.argv[4:] if not died.exists() else ():
    from airflow_stream_provider.checkpoint.local_files import LocalFiles
    from airflow_stream_provider.runtime.hadoop_files import HadoopFiles

    for each in (LocalFiles, HadoopFiles):
        dying(each, option)

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
    "checkpointLocation", f"{checkpoints}/lines"
).start()
records.groupBy("id").count().writeStream.queryName("counts").format("noop").outputMode("update").option(
    "checkpointLocation", f"{checkpoints}/counts"
).start()
spark.streams.awaitAnyTermination()
