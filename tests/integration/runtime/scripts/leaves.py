"""Stops its query and leaves on SIGTERM, as scripts do that are to end cleanly."""

import signal
import sys

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("leaves").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
query = writer.trigger(processingTime="500 milliseconds").start(f"{root}/lines")


def leave(number, frame):
    query.stop()
    sys.exit(0)


signal.signal(signal.SIGTERM, leave)
query.awaitTermination()
