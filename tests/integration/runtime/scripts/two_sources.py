"""Two queries, one that reads Kafka and one that reads nothing of it, both into files."""

import sys

from pyspark.sql import SparkSession

root, servers = sys.argv[1:3]
spark = SparkSession.builder.appName("two sources").getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
)


def write(rows, name):
    (
        rows.writeStream.queryName(name)
        .format("json")
        .option("checkpointLocation", f"{root}/checkpoints/{name}")
        .trigger(processingTime="1 second")
        .start(f"{root}/{name}")
    )


write(records.selectExpr("cast(value as string) as id"), "lines")
write(spark.readStream.format("rate").load(), "ticks")
spark.streams.awaitAnyTermination()
