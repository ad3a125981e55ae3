"""A plain PySpark application: a batch a second with state, and how far it is in a file."""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

checkpoint, progress = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("requests").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).option("numPartitions", 2).load()
counted = rows.groupBy((F.col("value") % 97).alias("key")).agg(F.sum("value").alias("total"))
writer = counted.writeStream.outputMode("update").format("noop").trigger(processingTime="1 second")
query = writer.option("checkpointLocation", checkpoint).start()
done = -1
with open(progress, "a") as file:
    while True:
        last = query.lastProgress
        if last is not None and last["batchId"] > done:
            done = last["batchId"]
            print(done, file=file, flush=True)
        time.sleep(0.05)
