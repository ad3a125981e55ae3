"""One good query, and one thing that a stream's script cannot do, by its second argument."""

import os
import sys
import tempfile
import threading
import time

from pyspark.sql import SparkSession

root, case = sys.argv[1:]
spark = SparkSession.builder.appName(case).getOrCreate()
if case == "swallows":
    manager = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", manager)
orders = spark.readStream.schema("id long, customer string, amount long").json(f"{root}/in")


def writer(name):
    return orders.writeStream.queryName(name).option("checkpointLocation", f"{root}/checkpoints/{name}")


def swallowed(start):
    """Start in a thread, whose error nobody sees."""
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()


def late():
    time.sleep(40)
    writer("late").format("json").start(f"{root}/late")


lines = writer("lines").format("json").trigger(processingTime="500 milliseconds")
if case != "nothing started":
    query = lines.start(f"{root}/lines")
if case == "thread":
    swallowed(lambda: orders.writeStream.format("json").start(f"{root}/lost"))
elif case == "twin":
    swallowed(lambda: lines.queryName("twin").start(f"{root}/lines"))
elif case == "same name":
    swallowed(lambda: writer("other").queryName("lines").format("noop").start())
elif case == "relative path":
    writer("path").format("parquet").start("output")
elif case == "relative option":
    writer("path").format("parquet").option("path", "output").start()
elif case == "working folder":
    writer("own").option("checkpointLocation", os.path.abspath("checkpoint")).format("noop").start()
elif case == "temporary folder":
    writer("own").option("checkpointLocation", tempfile.mkdtemp()).format("noop").start()
elif case == "own folder":
    writer("own").format("json").start(os.path.join(os.path.dirname(os.path.abspath(__file__)), "out"))
elif case == "connect":
    os.environ["SPARK_REMOTE"] = "sc://127.0.0.1:1"
    swallowed(lambda: SparkSession.builder.getOrCreate())
elif case == "past the gate":
    writer("copies").format("noop")._jwrite.start()
elif case == "table":
    writer("table").toTable("orders")
elif case == "memory":
    writer("memory").format("memory").outputMode("append").start()
elif case == "late":
    threading.Thread(target=late).start()
elif case == "exit code":
    try:
        raise ValueError("no such topic")
    except ValueError:
        sys.exit(3)
elif case == "hard exit":
    os._exit(9)
elif case == "stopped":
    query.stop()
elif case == "nothing started":
    sys.exit()
if case != "stopped":
    query.awaitTermination()
