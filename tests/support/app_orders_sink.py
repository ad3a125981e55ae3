"""Orders from files into PostgreSQL: as docs/exactly_once.md shows it, and beside a sink without a ledger.

Arguments: the folder with the orders, and the page.
"""

import os
import re
import signal
import sys
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import exactly_once, postgres

root = Path(sys.argv[1])
(example,) = re.findall(r"^```python\n(.*?)^```", Path(sys.argv[2]).read_text(), re.M | re.S)
spark = SparkSession.builder.appName("orders into a database").getOrCreate()
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")
# A rehearsal calls its sink, which is no function of the script's own.
exec(example, {"orders": orders, "checkpoint": f"{root}/checkpoints/daily"})
sink = exactly_once(postgres("orders_db"), table="by_key", key=["id"])


def write(batch, batch_id):
    sink(batch, batch_id)
    rows = [tuple(row) for row in batch.collect()]
    with psycopg.connect(os.environ["STREAM_SINK_ORDERS_DB"]) as connection:
        connection.cursor().executemany("insert into naive values (%s, %s, %s)", rows)
    if rows and (root / "die").exists():
        # Both have committed, and Spark has not.
        (root / "die").unlink()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


both = orders.writeStream.queryName("both").foreachBatch(write).option("checkpointLocation", f"{root}/checkpoints/both")
both.trigger(processingTime="500 milliseconds").start()
spark.streams.awaitAnyTermination()
