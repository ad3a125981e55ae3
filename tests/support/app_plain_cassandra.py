"""A plain PySpark job, without the launcher: Kafka into Cassandra by the sink with a ledger.

Arguments: servers, topic, checkpoint, and when it dies: `rows`, with the second batch's rows and without its ledger, or
`ledger`, with both and without Spark's commit. It ends when it has read all.
"""

import os
import sys

import psutil
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import exactly_once
from airflow_stream_provider.sinks.cassandra import Cassandra

servers, topic, checkpoint, *how = sys.argv[1:]


def die():
    for each in (*psutil.Process().children(recursive=True), psutil.Process()):
        each.kill()


class Dies(Cassandra):
    """Writes the rows of two batches."""

    left = 2

    def upsert(self, *args):
        rows = super().upsert(*args)
        self.left -= 1
        if "rows" in how and not self.left:
            die()
        return rows


spark = SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false").getOrCreate()
sink = exactly_once(Dies("shop", os.environ["STREAM_SINK_SHOP"]), table="orders", key=["id"])
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "maxOffsetsPerTrigger": "1000"}
options["startingOffsets"] = "earliest"
if "new" in how:
    options |= sink.starting_offsets()
orders = spark.readStream.format("kafka").options(**options).load()
rows = orders.selectExpr("cast(cast(value as string) as bigint) as id", "cast(partition as string) as customer")


def write(batch, batch_id):
    sink(batch, batch_id)
    if batch_id == 1 and "ledger" in how:
        die()


query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
