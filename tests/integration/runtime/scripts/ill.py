"""Three queries that read files; the Python of one fails at records from a number on, while a file is there."""

import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

root, bad = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.appName("ill").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


@F.udf("long")
def checked(id):
    if id >= bad and os.path.exists(f"{root}/broken"):
        raise ValueError(f"bad record {id}, password=hunter2")
    return id


def write(rows, name):
    (
        rows.writeStream.queryName(name)
        .format("json")
        .option("checkpointLocation", f"{root}/checkpoints/{name}")
        .trigger(processingTime="200 milliseconds")
        .start(f"{root}/{name}")
    )


write(orders, "lines")
write(orders, "copies")
write(orders.withColumn("id", checked("id")), "alerts")
while any(query.isActive for query in spark.streams.active):
    time.sleep(1)
