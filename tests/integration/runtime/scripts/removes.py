"""A script that begins with a clean checkpoint, as some in the public do: by Python, or where that is not seen."""

import shutil
import sys

from pyspark.sql import SparkSession

root, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("removes").getOrCreate()
if checkpoint.startswith("/"):
    shutil.rmtree(checkpoint, ignore_errors=True)
else:
    assert spark._jvm is not None
    path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)

orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
writer = orders.writeStream.format("json").queryName("lines").option("checkpointLocation", checkpoint)
writer.trigger(processingTime="500 milliseconds").start(f"{root}/lines").awaitTermination()
