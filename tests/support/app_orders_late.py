"""An application that starts its second query only when it is told to, long after the first, and waits for neither."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

root, more = Path(sys.argv[1]), Path(sys.argv[2])
spark = SparkSession.builder.appName("orders in two steps").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


def start(name):
    options = {"checkpointLocation": f"{root}/checkpoints/{name}"}
    writer = orders.select("id").writeStream.format("json").options(**options)
    writer.trigger(processingTime="500 milliseconds").start(f"{root}/{name}")


start("lines")
while not more.exists():
    time.sleep(0.1)
start("copies")
Path(f"{more}.started").touch()
spark.streams.awaitAnyTermination()
