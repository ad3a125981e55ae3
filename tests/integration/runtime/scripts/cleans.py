"""Spark deletes the files that it has read; the second argument is the pause between two batches."""

import sys

from pyspark.sql import SparkSession

root, pause = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
source = spark.readStream.schema("id long, customer string, amount long").option("maxFilesPerTrigger", 1)
orders = source.option("CleanSource", "delete").json(f"{root}/in")
lines = orders.writeStream.queryName("lines").option("checkpointLocation", f"{root}/checkpoints/lines")
lines.trigger(processingTime=pause).format("json").start(f"{root}/lines").awaitTermination()
