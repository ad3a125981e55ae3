"""Starts its second query after a while, or once the first, with all that there is, is done."""

import sys
import time

from pyspark.sql import SparkSession

root, how = sys.argv[1:]
spark = SparkSession.builder.appName("late").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


def start(name, **trigger):
    writer = (
        orders.writeStream.queryName(name).format("json").option("checkpointLocation", f"{root}/checkpoints/{name}")
    )
    return writer.trigger(**trigger).start(f"{root}/{name}")


if how == "after a while":
    start("lines", processingTime="500 milliseconds")
    time.sleep(25)
    start("copies", processingTime="500 milliseconds").awaitTermination()
while True:
    for name in ("lines", "copies"):
        start(name, availableNow=True).awaitTermination()
    time.sleep(0.5)
