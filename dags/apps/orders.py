"""Orders from Kafka: every order enriched, to one topic, and the totals per customer, to another."""

from __future__ import annotations

import argparse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

ORDER = "id LONG, customer STRING, country STRING, cents LONG"
VAT = {"AT": 0.20, "CH": 0.081, "DE": 0.19, "FR": 0.20}


def read_orders(spark: SparkSession, kafka: str) -> DataFrame:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10_000)
        .load()
    )
    return records.select(F.from_json(F.col("value").cast("string"), ORDER).alias("order")).select("order.*")


def enrich(orders: DataFrame, vat: bool, score: bool) -> DataFrame:
    enriched = orders.withColumn("euros", F.col("cents") / 100)
    if vat:
        rates = F.create_map(*[F.lit(part) for rate in VAT.items() for part in rate])
        enriched = enriched.withColumn("vat", F.round(F.col("euros") * rates[F.col("country")], 2))
    if score:
        enriched = enriched.withColumn("score", fraud_score("customer", "cents"))
    return enriched


def total(orders: DataFrame, by: list[str]) -> DataFrame:
    return orders.groupBy(*by).agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))


@F.udf(DoubleType())
def fraud_score(customer: str, cents: int) -> float:
    from scoring import score

    return score(customer, cents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", required=True, help="host:port of a broker")
    parser.add_argument("--checkpoint", required=True, help="folder of the queries' checkpoints")
    parser.add_argument("--vat", action="store_true", help="add the value added tax to every order")
    parser.add_argument("--score", action="store_true", help="ask the scoring service about every order")
    parser.add_argument("--request-bytes", default="1048576", help="max.request.size of Kafka's producer")
    parser.add_argument("--totals-by", nargs="+", default=["customer"], metavar="COLUMN")
    args = parser.parse_args()

    spark = SparkSession.builder.getOrCreate()
    orders = read_orders(spark, args.kafka)

    def start(name: str, rows: DataFrame, key: Column, topic: str, mode: str) -> None:
        value = F.to_json(F.struct(*[F.col(column) for column in rows.columns]))
        (
            rows.select(key.cast("string").alias("key"), value.alias("value"))
            .writeStream.format("kafka")
            .queryName(name)
            .outputMode(mode)
            .option("kafka.bootstrap.servers", args.kafka)
            .option("kafka.max.request.size", args.request_bytes)
            .option("topic", topic)
            .option("checkpointLocation", f"{args.checkpoint}/{name}")
            .trigger(processingTime="1 second")
            .start()
        )

    start("enrich", enrich(orders, args.vat, args.score), F.col("id"), "orders-enriched", "append")
    start("totals", total(orders, args.totals_by), F.concat_ws("/", *args.totals_by), "order-totals", "update")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
