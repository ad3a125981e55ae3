"""Orders from Kafka into PostgreSQL, by the sink alone. Arguments: servers, stream, checkpoints, and the database."""

import sys

from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import exactly_once, postgres

servers, stream, checkpoints, dsn = sys.argv[1:]
spark = SparkSession.builder.appName("orders by a ledger").getOrCreate()
options = {"kafka.bootstrap.servers": servers, "subscribe": f"{stream}-in", "startingOffsets": "earliest"}
records = spark.readStream.format("kafka").options(**options).load()
orders = records.selectExpr("cast(get_json_object(cast(value as string), '$.id') as bigint) id")
sink = exactly_once(postgres("orders_db", dsn=dsn), table="orders")
writer = orders.writeStream.queryName("orders").foreachBatch(sink).option("checkpointLocation", f"{checkpoints}/orders")
writer.trigger(processingTime="500 milliseconds").start().awaitTermination()
