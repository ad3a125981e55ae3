"""A query of one kind, on whatever Spark: it says how it does again and again, until a file tells it to stop."""

import json
import os
import sys
import time

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

kind, root, conf = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
builder = SparkSession.builder.appName(kind)
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()


def rows(number, partitions):
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", number)
        .option("numPartitions", partitions)
        .load()
    )


def note(what):
    """Leave a file of one byte more; many processes do so at once."""
    with open(f"{root}/{what}", "ab", buffering=0) as file:
        file.write(b".")


def counts(source):
    return source.groupBy((col("value") % 50).alias("key")).count().writeStream.outputMode("update").format("noop")


def each_row():
    """A foreach sink of which the first of four partitions is slow."""

    def write(row):
        if row.value % 4 == 0:
            time.sleep(0.5)
        with open(f"{root}/written-{row.value}", "ab", buffering=0) as file:
            file.write(b".")

    return rows(24, 4).writeStream.foreach(write)


def waits():
    """A task that lasts until there is a file."""

    def wait(value):
        while not os.path.exists(f"{root}/go"):
            time.sleep(0.1)
        return value

    return rows(1, 1).select(udf(wait, "long")("value")).writeStream.format("noop")


def aggregates():
    return counts(rows(200, 4)).trigger(processingTime="500 milliseconds")


def fails():
    """Tasks that fail wherever they run, from the third batch on."""

    def write(value):
        if value >= 400:
            raise ValueError("The sink is away.")
        return value

    return rows(200, 4).select(udf(write, "long")("value")).writeStream.format("noop")


def cached():
    """A join with a table of 40 rows that is cached, and says how many of them were computed."""

    def compute(key):
        note("computed")
        return f"name {key}"

    table = spark.range(0, 40, 1, 4).withColumn("name", udf(compute, "string")("id"))
    table = table.persist(getattr(StorageLevel, os.environ["LEVEL"]))
    table.count()
    joined = rows(40, 2).withColumn("id", col("value") % 40).join(table, "id")
    return joined.writeStream.format("noop").trigger(processingTime="500 milliseconds")


def talks():
    """Tasks that write 50 kB each to the log of their executor."""

    def say(value):
        print("x" * 50_000, file=sys.stderr, flush=True)
        return value

    return rows(4, 4).select(udf(say, "long")("value")).writeStream.format("noop")


def files():
    """Counts what comes as files, whenever it does."""
    source = spark.readStream.schema("value long").json(f"{root}/in")
    return counts(source).trigger(processingTime="500 milliseconds")


def writes_files():
    writer = rows(20, 5).writeStream.format("json").option("path", f"{root}/out")
    retention = os.environ.get("RETENTION")
    return writer.option("retention", retention) if retention else writer


def state():
    """Each row once: for ever, or for some seconds of the rows' own time."""
    source, late = rows(100, 2), os.environ.get("LATE")
    source = source.withWatermark("timestamp", late) if late else source
    once = source.dropDuplicates(["value", "timestamp"])
    return once.writeStream.format("noop")


query = globals()[kind]().option("checkpointLocation", f"{root}/checkpoint").start()
while not os.path.exists(f"{root}/stop"):
    progress = [each for each in query.recentProgress if each.numInputRows]
    listed = spark._jsc.sc().statusStore().executorList(True)
    found = [listed.apply(number) for number in range(listed.size())]
    said = {
        "active": query.isActive,
        "error": str(query.exception() or ""),
        "batch": max((each.batchId for each in progress), default=-1),
        "rows": sum(each.numInputRows for each in progress),
        "state": [sum(each.numRowsTotal for each in one.stateOperators) for one in progress],
        "tasks": len(spark.sparkContext.statusTracker().getActiveStageIds()),
        "application": spark.sparkContext.applicationId,
        "excluded": [each.id() for each in found if each.isExcluded()],
    }
    with open(f"{root}/.said", "w") as file:
        json.dump(said, file)
    os.rename(f"{root}/.said", f"{root}/said")
    time.sleep(0.1)
query.stop()
spark.stop()
