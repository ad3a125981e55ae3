"""Spark's defaults of the settings that the audit judges, asked of the JVM of the installed Spark.

Run `python -m tests.support.spark_defaults` with each Spark (`.venv-spark-*`): it keeps what that one answers in
tests/fixtures/spark_defaults.json, and writes the table of the package from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "tests" / "fixtures" / "spark_defaults.json"
TABLE = ROOT / "airflow_stream_provider" / "audit" / "spark" / "defaults.py"
_NAMES = """
spark.cleaner.periodicGC.interval
spark.decommission.enabled
spark.deploy.maxExecutorRetries
spark.deploy.recoveryMode
spark.deploy.spreadOut
spark.deploy.spreadOutApps
spark.dynamicAllocation.enabled
spark.dynamicAllocation.executorIdleTimeout
spark.dynamicAllocation.minExecutors
spark.eventLog.enabled
spark.eventLog.rolling.enabled
spark.excludeOnFailure.enabled
spark.excludeOnFailure.taskAndStage.enabled
spark.executor.failuresValidityInterval
spark.executor.heartbeatInterval
spark.executor.logs.rolling.strategy
spark.executor.memory
spark.executor.memoryOverhead
spark.executor.memoryOverheadFactor
spark.executor.pyspark.memory
spark.kafka.consumer.cache.capacity
spark.kafka.consumer.cache.timeout
spark.network.timeout
spark.scheduler.mode
spark.shuffle.service.enabled
spark.speculation
spark.sql.shuffle.partitions
spark.sql.streaming.minBatchesToRetain
spark.sql.streaming.numRecentProgressUpdates
spark.sql.streaming.ui.retainedProgressUpdates
spark.sql.ui.retainedExecutions
spark.stage.maxConsecutiveAttempts
spark.storage.decommission.enabled
spark.task.maxFailures
spark.ui.retainedJobs
spark.ui.retainedStages
spark.ui.retainedTasks
spark.worker.cleanup.enabled
"""
NAMES = tuple(_NAMES.split())
# The objects of Spark in which settings are defined; each registers its own when it is made.
_DEFINED_IN = (
    *("internal.config.package", "internal.config.Deploy", "internal.config.Worker", "internal.config.UI"),
    *("internal.config.Status", "internal.config.History", "internal.config.Network", "sql.internal.SQLConf"),
    *("sql.internal.StaticSQLConf",),
)
# The connector for Kafka, which need not be there, has these; they are what its sources say in every version.
CONNECTOR = {"spark.kafka.consumer.cache.capacity": "64", "spark.kafka.consumer.cache.timeout": "5m"}


def asked(session: Any) -> dict[str, str | None]:
    """Return the defaults of the settings that this Spark has; None: it has no default."""
    java = session._jvm
    loader = session._jsparkSession.getClass().getClassLoader()
    for name in _DEFINED_IN:
        java.java.lang.Class.forName(f"org.apache.spark.{name}$", True, loader)
    found: dict[str, str | None] = dict(CONNECTOR)
    for name in NAMES:
        entry = java.org.apache.spark.internal.config.ConfigEntry.findEntry(name)
        if entry is not None:
            said = entry.defaultValueString()
            found[name] = None if said in ("<undefined>", "<value of spark.excludeOnFailure.enabled>") else said
    return dict(sorted(found.items()))


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def table(answers: Mapping[str, Mapping[str, str | None]]) -> str:
    """Return the package's module, from the answers by minor version."""
    lines = []
    for name in NAMES:
        since: dict[str, str | None] = {}
        for version, found in sorted(answers.items()):
            if name in found and (not since or [*since.values()][-1] != found[name]):
                since[version] = found[name]
        lines.append(f"    {json.dumps(name)}: {json.dumps(since).replace('null', 'None')},\n")
    before, begin, rest = TABLE.read_text().partition("# begin defaults\n")
    _, end, after = rest.partition("# end defaults\n")
    return f"{before}{begin}DEFAULTS: Mapping[str, Mapping[str, str | None]] = {{\n{''.join(lines)}}}\n{end}{after}"


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    answers[minor(session.version)] = asked(session)
    ANSWERS.write_text(json.dumps(dict(sorted(answers.items())), indent=1) + "\n")
    TABLE.write_text(table(answers))
