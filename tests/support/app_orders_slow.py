"""One stateless query of `app_orders_files.py` that takes so many milliseconds for each order."""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

root, milliseconds = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.appName("orders of mine").getOrCreate()


@F.udf("long")
def slowly(number: int) -> int:
    time.sleep(milliseconds / 1000)
    return number


orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
lines = orders.select(slowly("id").alias("id"), "amount")
lines.writeStream.format("json").option("checkpointLocation", f"{root}/checkpoints/lines").trigger(
    processingTime="2 seconds"
).start(f"{root}/lines").awaitTermination()
