"""Count orders by customer and hour: a plain script, which knows nothing of its surroundings."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--kafka", required=True, help="host:port of a broker")
parser.add_argument("--data", required=True, help="folder of the checkpoint and of the output")
args = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", args.kafka).option("subscribe", "orders")
orders = records.load().select(
    "timestamp", F.from_json(F.col("value").cast("string"), "customer STRING").alias("order")
)
hours = orders.withWatermark("timestamp", "10 minutes").groupBy(F.window("timestamp", "1 hour"), "order.customer")
query = hours.count().writeStream.queryName("hours").format("parquet").outputMode("append")
query.option("checkpointLocation", f"{args.data}/checkpoint").start(f"{args.data}/hours").awaitTermination()
