"""A plain PySpark job, without the launcher: a Kafka topic into another one, with a ledger, and into a third without.

Arguments: servers, checkpoint, and how: see `tests/integration/sinks/test_kafka_job.py`. It ends when it has read all.
"""

import os
import signal
import sys
from itertools import count

import psutil
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

from airflow_stream_provider.sinks import exactly_once, kafka, kafka_ledger

servers, checkpoint, *how = sys.argv[1:]
builder = SparkSession.builder.master("local[2,4]").appName("plain").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
sink = exactly_once(kafka("bus"), table="out", take_over="take over" in how)
options = {"kafka.bootstrap.servers": servers, "subscribe": "orders", "maxOffsetsPerTrigger": "1000"}
options["startingOffsets"] = "earliest"
if "new" in how:
    options |= sink.starting_offsets()
rows = spark.readStream.format("kafka").options(**options).load().select(col("value").cast("string"))
commit = kafka_ledger._commit
commits = count()


def die():
    for each in (*psutil.Process().children(recursive=True), psutil.Process()):
        each.kill()


def in_the_transaction(producer):
    if not next(commits):  # that of the claim, which has no rows
        return commit(producer)
    if "die in the transaction" in how:
        die()
    if "freeze" in how:
        os.kill(os.getpid(), signal.SIGSTOP)
    return commit(producer)


@udf("string")
def once(value):
    """Fails in the first try of a task, behind rows that it has handed on."""
    task = TaskContext.get()
    if task and task.attemptNumber() == 0 and int(value) % 1000 > 900:
        raise ValueError("the first try")
    return value


def write(batch, batch_id):
    kafka_ledger._commit = in_the_transaction
    if "retry" in how:
        batch = batch.select(once("value").alias("value"))
    batch.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "naive").save()
    sink(batch, batch_id)
    if "die" in how:
        die()


writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
query = writer.start() if "stay" in how else writer.trigger(availableNow=True).start()
query.awaitTermination()
if "count" in how:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "out")
    for level in ("read_committed", "read_uncommitted"):
        print(level, reader.option("kafka.isolation.level", level).load().count(), flush=True)
