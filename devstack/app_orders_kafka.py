"""A plain PySpark application for tests, with one stateless query and one aggregation from Kafka to Kafka.

    app_orders_kafka.py KAFKA PREFIX CHECKPOINT [--drag FILE] [--max-offsets N] [--strict]

The topics are PREFIX-in, PREFIX-out and PREFIX-totals. While FILE exists, every batch of the stateless query hangs; one
that does so makes FILE.hangs. With --strict a record that is no order fails its batch.
"""

import argparse
import os
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

parser = argparse.ArgumentParser()
parser.add_argument("kafka")
parser.add_argument("prefix")
parser.add_argument("checkpoint")
parser.add_argument("--drag")
parser.add_argument("--max-offsets", default="20000")
parser.add_argument("--strict", action="store_true")
args = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", args.kafka)
    .option("subscribe", f"{args.prefix}-in")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", args.max_offsets)
    .load()
)
FIELDS = "id LONG, customer STRING, country STRING, cents LONG"
mode = {"mode": "FAILFAST"} if args.strict else {}
order = F.from_json(F.col("value").cast("string"), FIELDS, mode)
orders = records.select(order.alias("order")).select("order.*")


@F.udf("string")
def drag(key):
    while args.drag and os.path.exists(args.drag):
        open(f"{args.drag}.hangs", "w").close()
        time.sleep(0.1)
    return key


def start(name, rows, mode):
    (
        rows.writeStream.format("kafka")
        .queryName(name)
        .outputMode(mode)
        .option("kafka.bootstrap.servers", args.kafka)
        .option("topic", f"{args.prefix}-{name}")
        .option("checkpointLocation", f"{args.checkpoint}/{name}")
        .trigger(processingTime="1 second")
        .start()
    )


key = F.col("id").cast("string")
start(
    "out",
    orders.select((drag(key) if args.drag else key).alias("key"), F.to_json(F.struct("id", "cents")).alias("value")),
    "append",
)
totals = orders.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
start(
    "totals",
    totals.select(F.col("customer").alias("key"), F.to_json(F.struct("orders", "cents")).alias("value")),
    "update",
)
spark.streams.awaitAnyTermination()
