"""The script stops its query every few seconds, between two batches, and starts it again (to read tables anew)."""

import sys
import time

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("restarts").getOrCreate()
while True:
    orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
    writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
    query = writer.trigger(processingTime="500 milliseconds").start(f"{root}/lines")
    if query.awaitTermination(4):
        break
    while query.status["isTriggerActive"]:
        time.sleep(0.01)
    query.stop()
