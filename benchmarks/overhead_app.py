"""A plain PySpark application: equal batches as fast as they go, their times written to a file at the end."""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

checkpoint, result, batches = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = SparkSession.builder.appName("overhead").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200_000).option("numPartitions", 2).load()
counted = rows.groupBy((F.col("value") % 97).alias("key")).agg(F.sum("value").alias("total"))
query = counted.writeStream.outputMode("update").format("noop").option("checkpointLocation", checkpoint).start()
while query.lastProgress is None or query.lastProgress["batchId"] < batches:
    time.sleep(0.2)
seconds = [progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress]
query.stop()
with open(result, "w") as file:
    json.dump(seconds, file)
