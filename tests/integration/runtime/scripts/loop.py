"""A loop of AvailableNow: the query ends, and is started again on its checkpoint."""

import sys
import time

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("loop").getOrCreate()
while True:
    orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
    writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
    writer.trigger(availableNow=True).start(f"{root}/lines").awaitTermination()
    time.sleep(0.5)
