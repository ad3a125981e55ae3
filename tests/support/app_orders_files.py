"""A plain PySpark application on files: one stateless query, one aggregation through foreachBatch."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

root = sys.argv[1]
factor = int(sys.argv[2]) if len(sys.argv) > 2 else 1
# On another file system, if it is given.
checkpoints = sys.argv[3] if len(sys.argv) > 3 else f"{root}/checkpoints"
spark = SparkSession.builder.appName("orders of mine").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


def keep(batch, batch_id):
    batch.write.mode("append").json(f"{root}/totals/{batch_id}")


lines = orders.select("id", (F.col("amount") * factor).alias("amount"))
lines.writeStream.format("json").option("checkpointLocation", f"{checkpoints}/lines").trigger(
    processingTime="500 milliseconds"
).start(f"{root}/lines")

totals = orders.groupBy("customer").agg(F.sum("amount").alias("total"))
totals.writeStream.outputMode("update").queryName("totals").foreachBatch(keep).option(
    "checkpointLocation", f"{checkpoints}/totals"
).trigger(processingTime="500 milliseconds").start()

spark.streams.awaitAnyTermination()
