"""Orders from files into a database: as docs/exactly_once.md shows it, and beside a sink without a ledger.

Arguments: the folder with the orders, the page, postgres or mariadb; and `alone`, for the page's query only.
"""

import contextlib
import os
import re
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_stream_provider import sinks

root, page, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
(example,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
# Else Spark lists more than 32 files by a job with a task for each of them.
listing = ("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
spark = SparkSession.builder.appName("orders into a database").config(*listing).getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
# A rehearsal calls its sink, which is no function of the script's own.
exec(example.replace("postgres", kind), {"orders": orders, "checkpoint": f"{root}/checkpoints/daily"})
database = getattr(sinks, kind)("orders_db")
sink = sinks.exactly_once(database, table="by_key", key=["id"])


def write(batch, batch_id):
    sink(batch, batch_id)
    rows = [tuple(row) for row in batch.collect()]
    with contextlib.closing(database.connect("naive")) as connection:
        connection.cursor().executemany("insert into naive values (%s, %s, %s)", rows)
    if rows and (root / "die").exists():
        # Both have committed, and Spark has not.
        (root / "die").unlink()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


if sys.argv[4:] == ["alone"]:
    spark.streams.awaitAnyTermination()
both = orders.writeStream.queryName("both").foreachBatch(write).option("checkpointLocation", f"{root}/checkpoints/both")
both.trigger(processingTime="500 milliseconds").start()
spark.streams.awaitAnyTermination()
