"""Kafka to files with a consumer group of its own; with `legacy`, offsets are fetched by a consumer of that group.

app_group_kafka.py KAFKA ROOT default|legacy
"""

import sys

from pyspark.sql import SparkSession

kafka, root, mode = sys.argv[1:]
spark = SparkSession.builder.appName("group").getOrCreate()
if mode == "legacy":
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", kafka)
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .option("kafka.group.id", "orders-reader")
    .load()
    .selectExpr("CAST(value AS STRING) AS id")
)
w = records.writeStream.queryName("lines").format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
w.trigger(processingTime="500 milliseconds").start(f"{root}/lines").awaitTermination()
