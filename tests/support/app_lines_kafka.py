"""A plain PySpark application from Kafka to files: one stateless query, and one that counts.

    app_lines_kafka.py KAFKA ROOT [--dies]

With --dies the driver is killed when it is about to replace the second file of a checkpoint's `offsets`.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

kafka, root = sys.argv[1:3]
if "--dies" in sys.argv:
    replace, replaced = os.replace, []

    def dies(new, old):
        if Path(old).parent.name == "offsets" and replaced:
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        replaced.append(old)
        replace(new, old)

    os.replace = dies  # type: ignore[assignment]

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
