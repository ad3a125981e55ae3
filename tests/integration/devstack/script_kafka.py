"""A driver for the worker: writes and reads a topic, and prints where driver and executors run."""

import json
import os
import sys

from pyspark.sql import SparkSession

servers, topic, answer = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
kafka = {"kafka.bootstrap.servers": servers}
values = spark.range(10).selectExpr("cast(id as string) as value")
values.write.format("kafka").options(**kafka, topic=topic).save()
count = spark.read.format("kafka").options(**kafka, subscribe=topic).load().count()


def whereabouts(_):
    return [json.dumps([os.environ["AIRFLOW_STREAM_STACK"], sys.executable])]


executor = spark.sparkContext.parallelize([0], 1).mapPartitions(whereabouts).first()
with open(answer + ".part", "w") as file:
    json.dump({"count": count, "driver": json.loads(whereabouts(None)[0]), "executor": json.loads(executor)}, file)
os.replace(answer + ".part", answer)
