"""Ends itself when its listener has heard of no query for 25 s, or that one has ended."""

import os
import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

root = sys.argv[1]
heard = [time.monotonic()]


class Listener(StreamingQueryListener):
    def onQueryStarted(self, event):
        heard.append(time.monotonic())

    def onQueryProgress(self, event):
        heard.append(time.monotonic())

    def onQueryIdle(self, event):
        heard.append(time.monotonic())

    def onQueryTerminated(self, event):
        os._exit(8)


def watch():
    while time.monotonic() - heard[-1] < 25:
        time.sleep(1)
    os._exit(9)


spark = SparkSession.builder.appName("watchdog").getOrCreate()
spark.streams.addListener(Listener())
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
writer = orders.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines")
query = writer.trigger(processingTime="500 milliseconds").start(f"{root}/lines")
heard.append(time.monotonic())
threading.Thread(target=watch, daemon=True).start()
query.awaitTermination()
