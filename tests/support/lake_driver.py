"""A driver that freezes while it writes a batch into a lake's table, after the transaction has begun.

Arguments: what opens the table, the table, a folder, and columns of a key. It writes batch 1: the orders 10 to 19.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_stream_provider import sinks
from airflow_stream_provider.sinks.lake import LakeLedger
from airflow_stream_provider.sinks.ledger import SinkError, Target
from tests.support.lakes import numbers
from tests.support.ledgers import MANAGED, batch


def main() -> None:
    kind, table, folder, *key = sys.argv[1:]
    armed, frozen = Path(folder) / "armed", Path(folder) / "frozen"
    spark = SparkSession.builder.master("local[1]").appName("zombie").getOrCreate()
    jvm, driver = spark._jvm.java.lang.ProcessHandle.current().pid(), os.getpid()  # type: ignore[union-attr]

    def freeze(name: str) -> str:
        if armed.exists() and not frozen.exists():
            frozen.touch()
            os.kill(driver, signal.SIGSTOP)
            os.kill(jvm, signal.SIGSTOP)
        return name

    merge = LakeLedger._merge

    def merge_anew(self: LakeLedger, rows: DataFrame) -> None:
        # The rows are computed again, within the transaction.
        rows.unpersist()
        armed.touch()
        merge(self, rows)

    LakeLedger._merge = merge_anew  # type: ignore[method-assign]
    database = getattr(sinks, kind)()
    mine = database.ledger(MANAGED, Target(table, tuple(key)))
    mine.claim()
    mine.write(numbers(spark, 0, 10), batch(0, 0, 10))
    if key:
        armed.unlink()  # until the merge: before it the rows are computed for the check of their keys
    else:
        armed.touch()
    rows = numbers(spark, 10, 20, "late").withColumn("name", F.udf(freeze, "string")("name"))
    try:
        mine.write(rows, batch(1, 10, 20))
    except SinkError as error:
        print(type(error).__name__, type(error.__cause__).__name__, error, flush=True)
    # What it would write now.
    try:
        mine.write(numbers(spark, 20, 30), batch(2, 20, 30))
    except SinkError as error:
        print(type(error).__name__, flush=True)


main()
