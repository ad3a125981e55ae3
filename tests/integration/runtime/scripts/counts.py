"""One query, whose function writes down each batch that it gets: no sink keeps a second writer away."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

root, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("counts").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
out = Path(root, "lines")
out.mkdir(exist_ok=True)


def keep(batch, number):
    text = "".join(f"{row}\n" for row in batch.select("id").toJSON().collect())
    (out / f"part-{number}-{os.getpid()}.json").write_text(text)


writer = orders.writeStream.queryName("counts").foreachBatch(keep).option("checkpointLocation", checkpoint)
writer.trigger(processingTime="500 milliseconds").start().awaitTermination()
