"""A query whose function reads each batch three times, for tests: app_orders_actions.py KAFKA CHECKPOINT."""

import sys

from pyspark.sql import SparkSession

kafka, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", kafka)
    .option("subscribe", "orders-in")
    .option("startingOffsets", "earliest")
    .option("minOffsetsPerTrigger", "10")
    .option("maxTriggerDelay", "4s")
    .load()
)


def three_actions(batch, batch_id):
    batch.count()
    batch.count()
    batch.write.format("noop").mode("append").save()


query = (
    records.writeStream.foreachBatch(three_actions)
    .queryName("actions")
    .option("checkpointLocation", checkpoint)
    .trigger(processingTime="2 seconds")
    .start()
)
query.awaitTermination()
