"""A plain PySpark job: two topics united into one table, and windows of one of them into another.

Arguments: servers, folder of the checkpoints, and the query that is killed right after the sink's commit of its first
rows. It ends when it has read all.
"""

import sys

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_stream_provider.sinks import exactly_once, postgres

servers, checkpoints, *dies = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").appName("sources").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def read(topic):
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="300").load()


def start(name, rows):
    sink = exactly_once(postgres("orders_db"), table=name, create=True)

    def write(batch, batch_id):
        some = not batch.isEmpty()
        sink(batch, batch_id)
        if name in dies and some:
            for each in (*psutil.Process().children(recursive=True), psutil.Process()):
                each.kill()

    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{checkpoints}/{name}")
    writer.trigger(availableNow=True).start().awaitTermination()


both = read("orders").unionAll(read("returns"))
start("united", both.selectExpr("cast(cast(value as string) as bigint) as id", "topic"))
each = F.window("timestamp", "10 seconds")
counts = read("orders").withWatermark("timestamp", "1 second").groupBy(each).count()
start("windows", counts.selectExpr("window.start as since", "`count` as orders"))
