"""A plain PySpark job: files into a lake's table by the sink with a ledger, and beside it by an append without one.

Arguments: kind, table, table of the append, folder of the files, checkpoint, and `die` for a kill when the second
batch is in both.
"""

import sys

import psutil
from pyspark.sql import SparkSession

from airflow_stream_provider import sinks

kind, table, naive, files, checkpoint, *how = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").appName("plain").getOrCreate()
sink = sinks.exactly_once(getattr(sinks, kind)(), table=table, query="orders", create=True)
source = spark.readStream.schema("id bigint, name string").option("maxFilesPerTrigger", "1").json(files)


def write(batch, batch_id):
    sink(batch, batch_id)
    if kind == "delta":
        batch.write.format("delta").mode("append").save(naive)
    else:
        batch.writeTo(naive).append()
    if "die" in how and batch_id == 1:
        for each in (*psutil.Process().children(recursive=True), psutil.Process()):
            each.kill()


writer = source.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
