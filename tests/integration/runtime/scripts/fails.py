"""A foreachBatch that writes down each of its calls, and fails on one batch, in some way, while a file is there."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

root, bad, how = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "sink"
spark = SparkSession.builder.appName("fails").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").option("maxFilesPerTrigger", 1)


def note(what, batch_id, ids):
    with open(f"{root}/journal.jsonl", "a") as file:
        file.write(json.dumps([what, batch_id, ids]) + "\n")


def sink(batch):
    raise ValueError("The sink is broken.")


def task(batch):
    def break_off(number):
        raise ValueError("The task is broken.")

    batch.select(udf(break_off, "long")("id")).collect()


def stage(batch):
    """A stage whose output is gone when the next one reads it: Spark runs it again, within the batch."""
    shuffled = batch.repartition(2, "id").rdd
    before = shuffled.count()
    for folder in Path(str(spark.conf.get("spark.local.dir"))).glob("blockmgr-*"):
        for output in folder.glob("*/shuffle_*"):
            output.unlink()
    os.unlink(f"{root}/broken")
    assert shuffled.count() == before


def thread(batch):
    java: Any = spark._jvm
    java.java.lang.Thread.currentThread().interrupt()  # it runs the query
    batch.collect()


def leave(batch):
    os._exit(7)


def memory(batch):
    gateway: Any = spark._sc._gateway
    gateway.new_array(gateway.jvm.long, 2_000_000_000)


def keep(batch, batch_id):
    ids = sorted(row.id for row in batch.select("id").collect())
    note("begins", batch_id, ids)
    Path(f"{root}/pool").write_text(str(spark.sparkContext.getLocalProperty("spark.scheduler.pool")))
    if batch_id == bad and os.path.exists(f"{root}/broken"):
        globals()[how](batch)
    note("ends", batch_id, ids)


orders.json(f"{root}/in").writeStream.queryName("lines").foreachBatch(keep).option(
    "checkpointLocation", f"{root}/checkpoints/lines"
).trigger(processingTime="200 milliseconds").start().awaitTermination()
