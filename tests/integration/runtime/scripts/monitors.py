"""Waits for the first progress, then indexes the newest one of each query in a loop, as public monitors do.

What it sees of the first query is written down. The function fails once when it is told to.
"""

import os
import sys
import time

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = SparkSession.builder.appName("monitors").getOrCreate()
me = spark.conf.get("spark.airflow.stream.deployment")
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


def keep(batch, number):
    if os.path.exists(f"{root}/fail"):
        os.unlink(f"{root}/fail")
        raise ValueError("the warehouse is away for a moment")
    batch.write.mode("append").json(f"{root}/lines")


writer = orders.writeStream.queryName("lines").option("checkpointLocation", f"{root}/checkpoints/lines")
lines = writer.trigger(processingTime="500 milliseconds").foreachBatch(keep).start()
writer = orders.writeStream.queryName("copies").option("checkpointLocation", f"{root}/checkpoints/copies")
copies = writer.trigger(processingTime="500 milliseconds").format("noop").start()
while lines.lastProgress is None or copies.lastProgress is None:
    time.sleep(0.2)
with open(f"{root}/seen by {me}", "a") as seen:
    while lines.isActive:
        last = lines.lastProgress
        assert last["sources"][0]["endOffset"] is not None
        assert [query.recentProgress[-1]["sources"][0]["numInputRows"] for query in spark.streams.active]
        message = lines.status["message"].partition("\n")[0]  # of a run that has failed it is a whole trace
        print(last["batchId"], message, file=seen, flush=True)
        time.sleep(0.2)
