"""A plain PySpark application on files: one stateless query."""

import sys

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
lines = orders.writeStream.format("json").queryName("lines").option("checkpointLocation", f"{root}/checkpoints/lines")
lines.trigger(processingTime="500 milliseconds").start(f"{root}/lines")
spark.streams.awaitAnyTermination()
