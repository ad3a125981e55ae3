"""A plain PySpark application: a query that counts and fails at a record, and one whose function fails at another.

app_bad_kafka.py KAFKA ROOT CHECKPOINTS
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_stream_provider.runtime import rehearsing

kafka, root, checkpoints = sys.argv[1:4]
spark = SparkSession.builder.getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", kafka)
    .option("subscribePattern", "ord.*")
    .option("startingOffsets", "earliest")
    .option("includeHeaders", "true")
    .load()
    .selectExpr("CAST(value AS STRING) AS id", "headers")
)


@F.udf("string")
def checked(text: str) -> str:
    if text.startswith("bad in the plan"):
        raise ValueError("no number")
    return text


def write(batch: DataFrame, batch_id: int) -> None:
    rows = [row.id for row in batch.select("id").collect()]
    if any(row.startswith("bad in the sink") for row in rows):
        raise ValueError("the sink takes no such record")
    if not rehearsing():
        Path(root, "lines", f"{batch_id}").write_text("\n".join(rows))


def start(name: str, frame: DataFrame) -> None:
    writer = frame.writeStream.queryName(name).option("checkpointLocation", f"{checkpoints}/{name}")
    if name == "lines":
        writer.foreachBatch(write).start()
    else:
        writer.format("noop").outputMode("update").start()


start("lines", records)
start("counts", records.select(checked("id").alias("id")).groupBy("id").count())
spark.streams.awaitAnyTermination()
