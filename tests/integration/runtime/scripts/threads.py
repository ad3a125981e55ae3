"""Each query is started, and awaited, by a thread of its own; the main thread only joins. A pool stays open."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("threads").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


def run(name):
    writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/{name}")
    writer.trigger(processingTime="500 milliseconds").start(f"{root}/{name}").awaitTermination()


pool = ThreadPoolExecutor(2)
pool.submit(print, "done at once")
pool.submit(run, "copies")
thread = threading.Thread(target=run, args=["lines"])
thread.start()
