"""A streaming application that makes its own session, and whose UDF imports a py-file of the release."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf


def where_helper_is(number: int) -> str:
    import helper  # type: ignore[import-not-found]  # a py-file of the release

    return f"{helper.double(number) == 2 * number} {helper.__file__} {os.getcwd()}"


def tell(batch: DataFrame, _: int) -> None:
    rows = [row.place for row in batch.collect()]
    if rows:
        Path(f"{out}.part").write_text(f"{rows[0]} {__file__}")
        Path(f"{out}.part").rename(out)


out, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("its own").getOrCreate()
place = udf(where_helper_is, "string")("value").alias("place")
numbers = spark.readStream.format("rate").load().select(place)
numbers.writeStream.foreachBatch(tell).option("checkpointLocation", checkpoint).start().awaitTermination()
