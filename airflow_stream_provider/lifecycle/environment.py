"""The surroundings of a driver as its `standby` record has them, for the audit and for advice. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.lifecycle.stored import known_fields
from airflow_stream_provider.lifecycle.texts import secret_setting

# The settings that a record may have, by name or by how they begin. Every reader of the control log sees them.
_NAMES = (
    *("spark.master", "spark.cores.max", "spark.default.parallelism", "spark.locality.wait", "spark.network.timeout"),
    *("spark.driver.memory", "spark.driver.cores", "spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts"),
    *("spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"),
    *("spark.executor.cores", "spark.executor.instances", "spark.executor.pyspark.memory"),
    *("spark.executor.failuresValidityInterval", "spark.yarn.executor.failuresValidityInterval"),
    *("spark.executor.maxNumFailures", "spark.yarn.max.executor.failures", "spark.executor.heartbeatInterval"),
    *("spark.eventLog.enabled", "spark.eventLog.compress", "spark.eventLog.rolling.enabled"),
    *("spark.eventLog.rolling.maxFileSize", "spark.local.dir", "spark.cleaner.periodicGC.interval"),
    *("spark.kubernetes.memoryOverheadFactor", "spark.kubernetes.local.dirs.tmpfs", "spark.sql.shuffle.partitions"),
    *("spark.sql.adaptive.enabled", "spark.sql.execution.arrow.pyspark.enabled", "spark.sql.ui.retainedExecutions"),
)
_BEGINNINGS = (
    *("spark.speculation", "spark.excludeOnFailure.", "spark.dynamicAllocation.", "spark.ui.retained"),
    *("spark.streaming.dynamicAllocation.", "spark.executor.logs.rolling.", "spark.deploy.", "spark.worker.cleanup."),
    *("spark.history.fs.eventLog.", "spark.history.fs.cleaner.", "spark.decommission.", "spark.storage.decommission."),
    *("spark.shuffle.service.", "spark.kafka.consumer.cache.", "spark.scheduler.", "spark.sql.streaming."),
)
# Java's options may hold anything: these words of them are kept, without the value of the last two.
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_JAVA_WORD = re.compile(
    r"-XX:[+-]\w+|-XX:\w+=[\w.]+|-Xm[sx]\w+|-XX:OnOutOfMemoryError(?==)|-Dlog4j2?\.configurationFile(?==)"
)
MOST_SETTINGS = 150
LONGEST_VALUE = 200


def allowed(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a record may have, as they are set; never one that looks like a secret."""
    known = {name: value for name, value in sorted(conf.items()) if name in _NAMES or name.startswith(_BEGINNINGS)}
    options = {name: " ".join(_JAVA_WORD.findall(conf[name])) for name in _JAVA_OPTIONS if name in conf}
    kept = [(n, v) for n, v in {**options, **known}.items() if len(n) <= LONGEST_VALUE and not secret_setting(n, v)]
    return {name: value[:LONGEST_VALUE] for name, value in kept[:MOST_SETTINGS]}


@dataclass(frozen=True)
class QueryEnvironment:
    """One query.

    :param options: those of its sources and its sink that the audit and advice read, as they are given.
    :param kafka_partitions: that it has offsets of; None: it has none yet, or does not read from Kafka.
    :param python_functions: whether its plan calls Python on the executors; None: not known.
    :param state_partitions: of its state, 0 without state; None: not known.
    :param stores: state stores that a batch opens; None: not known.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    kafka_partitions: int | None = None
    python_functions: bool | None = None
    state_partitions: int | None = None
    stores: int | None = None


@dataclass(frozen=True)
class Environment:
    """The surroundings of a driver when it had rehearsed.

    :param spark: version of Spark; empty: it is not known, as of older drivers, which have said nothing of all this.
    :param conf: the allowed settings as they are set, those of the script's session before Spark's own.
    :param cores: of all executors; None: not known.
    :param heap_max: bytes that the driver's heap may have; 0: not known.
    :param places: by ``checkpoint of QUERY`` and ``local folder N``: `path`, `mount` (a file system, or the scheme of
        the URL) and `replication` (of HDFS, else None).
    :param nofile: how many files the driver may open; 0: not known.
    :param persisted: cached tables: `name`, `level` and `replicas`.
    """

    spark: str = ""
    java: str = ""
    python: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    cores: int | None = None
    heap_max: int = 0
    places: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nofile: int = 0
    persisted: tuple[Mapping[str, Any], ...] = ()
    queries: Mapping[str, QueryEnvironment] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Any) -> Environment:
        """Return what a record says; where it says nothing, or not so, nothing is known."""
        try:
            known = known_fields(cls, data)
            queries = {
                name: QueryEnvironment(**known_fields(QueryEnvironment, each))
                for name, each in known.get("queries", {}).items()
            }
        except ValueError:
            return cls()
        conf = {name: str(value) for name, value in known.get("conf", {}).items()}
        places = {name: each for name, each in known.get("places", {}).items() if isinstance(each, dict)}
        persisted = tuple(each for each in known.get("persisted", ()) if isinstance(each, dict))
        return cls(**{**known, "conf": conf, "places": places, "persisted": persisted, "queries": queries})
