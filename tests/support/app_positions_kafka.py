"""A plain PySpark application from Kafka to files, of which everything that has a position is an argument.

app_positions_kafka.py KAFKA STARTING CHECKPOINT TARGET [FORMAT]
"""

import sys

from pyspark.sql import SparkSession

kafka, starting, checkpoint, target, *more = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", kafka)
    .option("subscribe", "orders")
    .option("startingOffsets", starting)
    .load()
    .selectExpr("CAST(value AS STRING) AS id")
)
writer = records.writeStream.queryName("lines").format(more[0] if more else "json")
writer = writer.option("rowTag", "line")  # without which Spark writes no XML
writer.option("checkpointLocation", checkpoint).trigger(processingTime="500 milliseconds").start(target)
spark.streams.awaitAnyTermination()
