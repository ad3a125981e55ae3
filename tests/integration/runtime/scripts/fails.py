"""A foreachBatch that writes down each of its calls, and fails on one batch for as long as a file is there."""

import json
import os
import sys

from pyspark.sql import SparkSession

root, bad = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.appName("fails").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").option("maxFilesPerTrigger", 1)


def note(what, batch_id, ids):
    with open(f"{root}/journal.jsonl", "a") as file:
        file.write(json.dumps([what, batch_id, ids]) + "\n")


def keep(batch, batch_id):
    ids = sorted(row.id for row in batch.select("id").collect())
    note("begins", batch_id, ids)
    if batch_id == bad and os.path.exists(f"{root}/broken"):
        raise ValueError("The sink is broken.")
    note("ends", batch_id, ids)


orders.json(f"{root}/in").writeStream.queryName("lines").foreachBatch(keep).option(
    "checkpointLocation", f"{root}/checkpoints/lines"
).trigger(processingTime="200 milliseconds").start().awaitTermination()
