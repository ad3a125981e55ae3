"""Facts about a healthy stream on each kind of cluster, for which every check of Spark holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_stream_provider.audit.report import judge_spark
from airflow_stream_provider.audit.spark.facts import Query, SparkFacts
from airflow_stream_provider.clusters.cluster import ClusterFacts
from airflow_stream_provider.lifecycle.environment import Environment, QueryEnvironment

GIB = 2**30
MASTERS = {"standalone": "spark://master:7077", "yarn": "yarn", "kubernetes": "k8s://https://api", "local": "local[2]"}
CONF = {
    "spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError",
    "spark.excludeOnFailure.enabled": "true",
    "spark.executor.cores": "1",
    "spark.executor.memory": "2g",
    "spark.ui.retainedStages": "100",
}
CLUSTERS = {
    "standalone": ClusterFacts(
        {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": "/var/lib/spark"}, "", 2, 2**20
    ),
    "yarn": ClusterFacts(
        {
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.nodemanager.recovery.enabled": "true",
            "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds": "3600",
        },
        "",
    ),
    "kubernetes": ClusterFacts(
        pod={
            "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            "spec": {
                "priorityClassName": "streams",
                "containers": [{"resources": {"limits": {"ephemeral-storage": "20Gi"}}}],
                "volumes": [{"name": "work", "emptyDir": {}}],
            },
        },
        node_labels={},
    ),
    "local": ClusterFacts(),
}
VITALS = {
    "executors": 2,
    "executors_started": 3,
    "executors_lost": {},
    "events_dropped": 0,
    "log_bytes": 2**20,
    "log_free": 50 * GIB,
    "local_free": 50 * GIB,
    "gc_share": 0.01,
}
MEASURED = {"best_rate": 1000.0, "arriving": 100.0, "state_bytes": 2**20, "durations": {"triggerExecution": 900}}
QUERY = Query(
    "orders",
    "foreachBatch",
    False,
    {"processingTime": "40 seconds"},
    1.0,
    QueryEnvironment({"maxOffsetsPerTrigger": "1000"}, 6, False, 4, 4),
    vitals=MEASURED,
)


def facts(
    kind: str = "standalone",
    *,
    conf: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,
    of: Mapping[str, Any] | None = None,
    measured: Mapping[str, Any] | None = None,
    vitals: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
    queries: int = 1,
    hours: float = 10.0,
) -> SparkFacts:
    """Return the facts of a healthy stream with some things changed."""
    expire = {"spark.executor.failuresValidityInterval": "1h"} if kind in ("yarn", "kubernetes") else {}
    places = {
        "checkpoint of orders": {"path": "/mnt/checkpoints/orders", "mount": "nfs4", "replication": None},
        "local folder 1": {"path": "/var/lib/spark/local", "mount": "ext4", "replication": None},
    }
    said = Environment(
        spark="4.0.0",
        conf={**CONF, "spark.master": MASTERS[kind], **expire, **(conf or {})},
        heap_max=GIB,
        places=places,
        nofile=65_536,
        persisted=({"name": "prices", "level": "Memory", "replicas": 2},),
    )
    one = replace(QUERY, of=replace(QUERY.of, **(of or {})), vitals={**MEASURED, **(measured or {})}, **(query or {}))
    return SparkFacts(
        1_800_000_000.0,
        replace(said, **(environment or {})),
        (one,) * queries,
        hours,
        replace(CLUSTERS[kind], **(cluster or {})),
        vitals={**VITALS, **(vitals or {})},
    )


def found(facts: SparkFacts) -> set[str]:
    return {finding.check for finding in judge_spark(facts).findings}
