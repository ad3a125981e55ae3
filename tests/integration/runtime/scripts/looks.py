"""Looks at its first query before it starts the second with the same writer, and polls both, one of them by its id.

It sets up its own logging and SparkContext.
"""

import logging
import signal
import sys
import threading
import time

from pyspark import SparkContext
from pyspark.sql import SparkSession

root = sys.argv[1]
logging.basicConfig(filename=f"{root}/script.log", level=logging.INFO, format="mine: %(message)s")
context = SparkContext(appName="my own context")
spark = SparkSession(context)
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())


def start(name):
    writer.queryName(name).option("checkpointLocation", f"{root}/checkpoints/{name}")
    return writer.start(f"{root}/{name}")


writer = orders.writeStream.format("json").trigger(processingTime="500 milliseconds")
first = start("lines")
logging.info("%s %s %s", first.isActive, first.status["message"], first.lastProgress)
logging.info("active: %s", [query.name for query in spark.streams.active])
time.sleep(2)
second = start("copies")
seen = first.id
while spark.streams.get(seen).isActive and second.isActive and not stopping.is_set():  # type: ignore[union-attr]
    time.sleep(1)
