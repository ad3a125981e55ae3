"""Its SparkContext stops as soon as a file says so, while the query is active."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

root, stop = sys.argv[1:]
spark = SparkSession.builder.appName("stops its context").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
query = writer.trigger(processingTime="500 milliseconds").start(f"{root}/lines")
while not Path(root, stop).exists():
    time.sleep(0.2)
spark.stop()
