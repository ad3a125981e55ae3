"""Orders from files into Kafka by the sink with a ledger, in two queries; one of them can die before Spark's commit.

Argument: the folder with the orders.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, struct, to_json

from airflow_stream_provider.sinks import exactly_once, kafka

root = Path(sys.argv[1])
spark = SparkSession.builder.appName("orders into Kafka").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
rows = orders.select(col("customer").alias("key"), to_json(struct("*")).alias("value"))
sink = exactly_once(kafka("bus"), table="both")


def write(batch, batch_id):
    sink(batch, batch_id)
    if (root / "die").exists():
        # Kafka has committed, and Spark has not.
        (root / "die").unlink()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


for name, function in (("daily", exactly_once(kafka("bus"), table="daily")), ("both", write)):
    writer = rows.writeStream.queryName(name).foreachBatch(function)
    writer = writer.option("checkpointLocation", f"{root}/checkpoints/{name}")
    writer.trigger(processingTime="500 milliseconds").start()
spark.streams.awaitAnyTermination()
