"""Archive Spark's classes as a JVM has loaded and checked them: another one that maps them starts with half the work.

    python -m devstack.class_archive build/spark.jsa

A JVM uses it with `-XX:SharedArchiveFile`, if it is the same JVM and its class path begins with `spark_class_path`;
folders that do not exist do not count. Any other JVM ignores it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from devstack.ports import HOST
from devstack.spark import QUICK_JVM, bundled_spark

# Loads what a driver of a stream loads: sources, state, a sink of files and Python functions.
APPLICATION = """\
import sys
from pyspark.sql import SparkSession

folder = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
totals = rows.selectExpr("value % 10 AS key").groupBy("key").count()
queries = [
    totals.writeStream.outputMode("update").foreachBatch(lambda batch, number: batch.collect()),
    rows.writeStream.format("parquet").option("path", f"{folder}/rows"),
]
running = [query.option("checkpointLocation", f"{folder}/{n}").start() for n, query in enumerate(queries)]
while not all(query.lastProgress and query.lastProgress["batchId"] >= 2 for query in running):
    spark.streams.awaitAnyTermination(1)
spark.read.parquet(f"{folder}/rows").count()
spark.stop()
"""


def make(archive: Path) -> None:
    """Run a small stream and write the archive of what it has loaded.

    :raises CalledProcessError: Spark does not run here.
    """
    home = bundled_spark()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        script, made = Path(folder, "application.py"), Path(folder, "made.jsa")
        script.write_text(APPLICATION)
        conf = {
            "spark.driver.extraJavaOptions": f"{QUICK_JVM} -XX:ArchiveClassesAtExit={made}",
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.ui.port": "0",
            "spark.sql.shuffle.partitions": "2",
        }
        words = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "512m"]
        words += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
        subprocess.run([*words, str(script), folder], env=environment, check=True, stdout=subprocess.DEVNULL)
        made.replace(archive)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
