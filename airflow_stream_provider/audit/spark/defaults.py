"""Spark's defaults by version. `python -m tests.support.spark_defaults` writes the table, from what Spark says."""

from __future__ import annotations

from collections.abc import Mapping

# By name, from which version on which default; None: the setting has none.
# begin defaults
DEFAULTS: Mapping[str, Mapping[str, str | None]] = {
    "spark.cleaner.periodicGC.interval": {"3.5": "30min"},
    "spark.decommission.enabled": {"3.5": "false"},
    "spark.deploy.maxExecutorRetries": {"3.5": "10"},
    "spark.deploy.recoveryMode": {"3.5": "NONE"},
    "spark.deploy.spreadOut": {"3.5": "true"},
    "spark.deploy.spreadOutApps": {"4.0": "true"},
    "spark.dynamicAllocation.enabled": {"3.5": "false"},
    "spark.dynamicAllocation.executorIdleTimeout": {"3.5": "60000ms"},
    "spark.dynamicAllocation.minExecutors": {"3.5": "0"},
    "spark.eventLog.enabled": {"3.5": "false"},
    "spark.eventLog.rolling.enabled": {"3.5": "false", "4.0": "true"},
    "spark.excludeOnFailure.enabled": {"3.5": None},
    "spark.excludeOnFailure.taskAndStage.enabled": {"4.0": None},
    "spark.executor.failuresValidityInterval": {"3.5": None},
    "spark.executor.heartbeatInterval": {"3.5": "10s"},
    "spark.executor.logs.rolling.strategy": {"3.5": ""},
    "spark.executor.memory": {"3.5": "1g"},
    "spark.executor.memoryOverhead": {"3.5": None},
    "spark.executor.memoryOverheadFactor": {"3.5": "0.1"},
    "spark.executor.pyspark.memory": {"3.5": None},
    "spark.kafka.consumer.cache.capacity": {"3.5": "64"},
    "spark.kafka.consumer.cache.timeout": {"3.5": "5m"},
    "spark.network.timeout": {"3.5": "120s"},
    "spark.scheduler.mode": {"3.5": "FIFO"},
    "spark.shuffle.service.enabled": {"3.5": "false"},
    "spark.speculation": {"3.5": "false"},
    "spark.sql.shuffle.partitions": {"3.5": "200"},
    "spark.sql.streaming.minBatchesToRetain": {"3.5": "100"},
    "spark.sql.streaming.numRecentProgressUpdates": {"3.5": "100"},
    "spark.sql.streaming.ui.retainedProgressUpdates": {"3.5": "100"},
    "spark.sql.ui.retainedExecutions": {"3.5": "1000"},
    "spark.stage.maxConsecutiveAttempts": {"4.0": "4"},
    "spark.storage.decommission.enabled": {"3.5": "false"},
    "spark.task.maxFailures": {"3.5": "4"},
    "spark.ui.retainedJobs": {"3.5": "1000"},
    "spark.ui.retainedStages": {"3.5": "1000"},
    "spark.ui.retainedTasks": {"3.5": "100000"},
    "spark.worker.cleanup.enabled": {"3.5": "false", "4.0": "true"},
}
# end defaults


def default(name: str, version: str) -> str | None:
    """Return the default of a setting in a version of Spark; None: it has none there, or is not in the table."""
    found = None
    for since, value in DEFAULTS.get(name, {}).items():
        if _numbers(since) <= _numbers(version):
            found = value
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
