"""One run of AvailableNow, which commits; then the script raises, mostly before a heartbeat has told of the commit."""

import sys

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("raises").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
writer.trigger(availableNow=True).start(f"{root}/lines").awaitTermination()
raise ValueError("It raises.")
