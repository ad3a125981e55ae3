"""Checks of what a cluster says of itself: a standalone master and its workers, YARN, and a driver's pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_stream_provider.audit.check import Broken, NotVerifiable, Severity, broken_if
from airflow_stream_provider.audit.spark.defaults import default
from airflow_stream_provider.audit.spark.facts import SparkFacts
from airflow_stream_provider.audit.spark.row import TheCluster, cluster, row

LOG_BYTES = 5 * 64 * 2**20
ENDED = 20
_MASTER = "  # in the spark-defaults.conf of every master; then restart them"
_WORKER = "  # in the spark-defaults.conf of every worker; then restart one by one"
_YARN = "  # in yarn-site.xml; then restart"
_TEMPLATE = "  # in the pod template of the connection"
_KEEP = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
# Labels of nodes that may be taken away at any time, by provider.
_SPOT = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
Look = Callable[[TheCluster, SparkFacts], Broken | None]


def _said(facts: SparkFacts, *names: str) -> str:
    """Return a setting of the cluster's daemons, of these names the first that is set, or Spark's default of it."""
    if facts.cluster.problem:
        raise NotVerifiable(facts.cluster.problem)
    values = [facts.cluster.settings[name] for name in names if name in facts.cluster.settings]
    defaults = [default(name, facts.environment.spark) for name in names]
    return next(iter([*values, *(value for value in defaults if value is not None)]), "")


def _recovery(_: TheCluster, facts: SparkFacts) -> Broken | None:
    mode, place = _said(facts, "spark.deploy.recoveryMode").upper(), "spark.deploy.recoveryDirectory"
    if mode == "NONE":
        return Broken("spark.deploy.recoveryMode is NONE")
    folder = facts.cluster.settings.get(place, "")
    volatile = mode in ("FILESYSTEM", "ROCKSDB") and (not folder or folder.startswith("/tmp"))
    return broken_if(volatile, f"{place} is {folder or 'not set'}")


def _retries(_: TheCluster, facts: SparkFacts) -> Broken | None:
    tries = _said(facts, "spark.deploy.maxExecutorRetries")
    return broken_if(facts.executors == 1 and tries != "-1", f"after {tries} tries the application is removed")


def _spread(_: TheCluster, facts: SparkFacts) -> Broken | None:
    said = _said(facts, "spark.deploy.spreadOutApps", "spark.deploy.spreadOut")
    return broken_if(said.lower() == "false", "executors of an application are put on as few workers as they fit")


def _executor_log(_: TheCluster, facts: SparkFacts) -> Broken | None:
    written = facts.cluster.executor_log
    if written is None:
        raise NotVerifiable("No worker tells how large the logs of this stream's executors are.")
    return broken_if(written > LOG_BYTES, f"the log of one executor has {written / 2**20:.0f} MiB")


def _folders(_: TheCluster, facts: SparkFacts) -> Broken | None:
    ended = facts.cluster.ended_executors
    if ended is None:
        raise NotVerifiable("No worker tells how many executors of this stream have ended.")
    return broken_if(ended > ENDED, f"{ended} executors of the application have ended")


def _not(name: str, *bad: str) -> Look:
    def look(_: TheCluster, facts: SparkFacts) -> Broken | None:
        said = _said(facts, name)
        if not said:
            raise NotVerifiable(f"No daemon of YARN tells {name}.")
        return broken_if(said.lower() in bad, f"{name} is {said}")

    return look


def _pod(facts: SparkFacts) -> Mapping[str, Any]:
    if not facts.cluster.pod:
        raise NotVerifiable("The driver's pod is not there.")
    return facts.cluster.pod


def _evicted(_: TheCluster, facts: SparkFacts) -> Broken | None:
    said = _pod(facts)["metadata"].get("annotations") or {}
    return broken_if(not any(said.get(name) == value for name, value in _KEEP.items()), "the driver's pod has neither")


def _deadline(_: TheCluster, facts: SparkFacts) -> Broken | None:
    said = _pod(facts)["spec"].get("activeDeadlineSeconds")
    return broken_if(said, f"the driver's pod is ended after {said} s")


def _spot(_: TheCluster, facts: SparkFacts) -> Broken | None:
    labels = facts.cluster.node_labels
    if labels is None:
        raise NotVerifiable("The labels of the pod's node cannot be read: that takes the right to get nodes.")
    found = [name for name, value in _SPOT.items() if str(labels.get(name, "")).lower() == value.lower()]
    return broken_if(found, f"its node is a spot instance ({', '.join(found)})")


def _disk(_: TheCluster, facts: SparkFacts) -> Broken | None:
    spec = _pod(facts)["spec"]
    endless = [
        v["name"] for v in spec.get("volumes") or () if "emptyDir" in v and not (v["emptyDir"] or {}).get("sizeLimit")
    ]
    limits = [(each.get("resources") or {}).get("limits") or {} for each in spec.get("containers") or ()]
    bounded = limits and all("ephemeral-storage" in each for each in limits)
    return broken_if(endless and not bounded, f"nothing limits the volumes {', '.join(endless)}")


CHECKS = (
    row(
        "master-recovery",
        Severity.CRITICAL,
        cluster("standalone"),
        "spark.deploy.recoveryMode of FILESYSTEM or ROCKSDB on a disk that stays, or ZOOKEEPER",
        "A master that is started again has its workers kill every executor and driver that it does not know: all "
        "streams at once.",
        f"spark.deploy.recoveryMode=FILESYSTEM spark.deploy.recoveryDirectory=FOLDER{_MASTER}",
        _recovery,
    ),
    row(
        "executor-retries",
        Severity.LOW,
        cluster("standalone"),
        "spark.deploy.maxExecutorRetries=-1 where an application has one executor",
        "On a full disk the tries are over within a second, and the application is removed.",
        f"spark.deploy.maxExecutorRetries=-1{_MASTER}",
        _retries,
    ),
    row(
        "spread",
        Severity.LOW,
        cluster("standalone"),
        "executors spread over the workers",
        "One machine has all executors of a stream.",
        f"spark.deploy.spreadOutApps=true{_MASTER}",
        _spread,
    ),
    row(
        "executor-log",
        Severity.HIGH,
        cluster("standalone"),
        "logs of executors that roll",
        "A full disk ends everything on the machine. At INFO it is about 1.5 GB a day at a batch a second.",
        "spark.executor.logs.rolling.strategy=size spark.executor.logs.rolling.maxSize=67108864 "
        f"spark.executor.logs.rolling.maxRetainedFiles=5{_WORKER}",
        _executor_log,
    ),
    row(
        "dead-executor-folders",
        Severity.MEDIUM,
        cluster("standalone"),
        f"at most {ENDED} ended executors of an application that runs",
        "Each leaves a folder with all jars and files until the application ends.",
        "# airflow streams restart: the folders go with the application, where spark.worker.cleanup.enabled is true",
        _folders,
    ),
    row(
        "rm-recovery",
        Severity.CRITICAL,
        cluster("yarn"),
        "yarn.resourcemanager.recovery.enabled=true",
        "A restart of the ResourceManager ends all applications.",
        f"yarn.resourcemanager.recovery.enabled=true{_YARN}",
        _not("yarn.resourcemanager.recovery.enabled", "false"),
    ),
    row(
        "nm-recovery",
        Severity.HIGH,
        cluster("yarn"),
        "yarn.nodemanager.recovery.enabled=true",
        "A restart of a NodeManager ends all its containers.",
        f"yarn.nodemanager.recovery.enabled=true{_YARN}",
        _not("yarn.nodemanager.recovery.enabled", "false"),
    ),
    row(
        "yarn-logs",
        Severity.MEDIUM,
        cluster("yarn"),
        "logs that are aggregated while their application runs",
        "Months of them stay on one disk, and above 90 % its node is unhealthy.",
        f"yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds=3600{_YARN}",
        _not("yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds", "-1"),
    ),
    row(
        "node-autoscaler",
        Severity.HIGH,
        cluster("kubernetes"),
        " or ".join(f"{name}={value}" for name, value in _KEEP.items()),
        "A cluster that shrinks at night evicts the driver.",
        "annotations: {{cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'}}" + _TEMPLATE,
        _evicted,
    ),
    row(
        "priority",
        Severity.LOW,
        cluster("kubernetes"),
        "a priority class for drivers",
        "Any other pod may displace it.",
        f"priorityClassName: NAME{_TEMPLATE}",
        lambda _, facts: broken_if(not _pod(facts)["spec"].get("priorityClassName"), "the driver's pod has none"),
    ),
    row(
        "deadline",
        Severity.HIGH,
        cluster("kubernetes"),
        "no activeDeadlineSeconds",
        "The kubelet ends the driver then.",
        f"# remove activeDeadlineSeconds{_TEMPLATE}",
        _deadline,
    ),
    row(
        "spot",
        Severity.MEDIUM,
        cluster("kubernetes"),
        "drivers on nodes that stay",
        "A spot node goes with two minutes' notice.",
        f"nodeSelector: {{{{LABEL: VALUE}}}}{_TEMPLATE}",
        _spot,
    ),
    row(
        "k8s-disk",
        Severity.MEDIUM,
        cluster("kubernetes"),
        "a limit of ephemeral storage for the driver's volumes",
        "A node whose disk is full evicts pods.",
        f"resources: {{{{limits: {{{{ephemeral-storage: 20Gi}}}}}}}}{_TEMPLATE}",
        _disk,
    ),
)
