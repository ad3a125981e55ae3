"""A plain PySpark job, without the launcher: Kafka into PostgreSQL by the sink with a ledger.

Arguments: servers, topic, checkpoint, and `die` for a kill after the sink's first commit. It ends when it has read all.
"""

import sys

import psutil
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import exactly_once, postgres

servers, topic, checkpoint, *how = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").appName("plain").config("spark.ui.enabled", "false").getOrCreate()
sink = exactly_once(postgres("orders_db"), table="orders")
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "maxOffsetsPerTrigger": "1000"}
options["startingOffsets"] = "earliest"
if "new" in how:
    options |= sink.starting_offsets()
orders = spark.readStream.format("kafka").options(**options).load()
rows = orders.selectExpr("cast(cast(value as string) as bigint) as id", "cast(partition as string) as customer")


def write(batch, batch_id):
    sink(batch, batch_id)
    if "die" in how:
        for each in (*psutil.Process().children(recursive=True), psutil.Process()):
            each.kill()


writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
query = writer.start() if "stay" in how else writer.trigger(availableNow=True).start()
query.awaitTermination()
