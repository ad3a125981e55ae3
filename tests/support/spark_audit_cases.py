"""For each check of Spark: facts that break it, what it finds, and the change that puts it right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.audit.check import CheckResult
from airflow_stream_provider.audit.spark.facts import SparkFacts
from tests.support.spark_audited import CLUSTERS, GIB, facts


@dataclass(frozen=True)
class Case:
    """Facts that break one check, and those in `besides`."""

    check: str
    found: str
    fix: str
    facts: SparkFacts
    besides: tuple[str, ...] = ()
    result: CheckResult = CheckResult.BROKEN


def change(*lines: str) -> str:
    return "\n".join(["", " conf:", *lines])


def place(**changed: Any) -> SparkFacts:
    whole = {"path": "/c/orders", "mount": "nfs4", "replication": None}
    return facts(environment={"places": {"checkpoint of orders": {**whole, **changed}}})


def local_folder(kind: str) -> SparkFacts:
    checkpoint = {"path": "s3a://c/orders", "mount": "s3a", "replication": None}
    places = {"checkpoint of orders": checkpoint, "local folder 1": {"path": "/tmp", "mount": "ext4"}}
    return facts(kind, environment={"places": places})


def master(**settings: str) -> SparkFacts:
    return facts(cluster={"settings": {name.replace("_", "."): value for name, value in settings.items()}})


def yarn(name: str, value: str) -> SparkFacts:
    return facts("yarn", cluster={"settings": {**CLUSTERS["yarn"].settings, name: value}})


def pod(metadata: Any = None, **spec: Any) -> SparkFacts:
    whole = CLUSTERS["kubernetes"].pod
    changed = {"metadata": {**whole["metadata"], **(metadata or {})}, "spec": {**whole["spec"], **spec}}
    return facts("kubernetes", cluster={"pod": changed})


ROLLING = "spark.executor.logs.rolling.strategy"
DYNAMIC = {"spark.dynamicAllocation.enabled": "true", "spark.shuffle.service.enabled": "true"}
LONG = {"processingTime": "10 minutes"}
RM = "yarn.resourcemanager.recovery.enabled"
NM = "yarn.nodemanager.recovery.enabled"
LOGS = "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}

CASES = [
    Case(
        "settings-without-effect",
        "it is 'size' here, and counts only in the spark-defaults.conf of the workers",
        change(f'-  {ROLLING}: "size"'),
        facts(conf={ROLLING: "size"}),
        result=CheckResult.NO_EFFECT,
    ),
    Case(
        "checkpoint-storage", "/c/orders is on a disk of one machine (ext4)", "# stop the stream", place(mount="ext4")
    ),
    Case(
        "speculation",
        "spark.speculation is true, and the sink is foreachBatch",
        change('-  spark.speculation: "true"', '+  spark.speculation: "false"'),
        facts(conf={"spark.speculation": "true"}),
    ),
    Case(
        "executor-failures-expire",
        "spark.executor.failuresValidityInterval is not set",
        change('-  spark.executor.failuresValidityInterval: ""', '+  spark.executor.failuresValidityInterval: "1h"'),
        facts("yarn", conf={"spark.executor.failuresValidityInterval": ""}),
    ),
    Case(
        "driver-heap",
        "10000 stages of 200 tasks take up to 954 of 1024 MiB",
        change('-  spark.ui.retainedStages: "10000"', '+  spark.ui.retainedStages: "100"'),
        facts(conf={"spark.ui.retainedStages": "10000"}),
    ),
    Case(
        "driver-exits-on-oom",
        "no Java option ends the driver then",
        change(
            '-  spark.driver.extraJavaOptions: "-Xss4m"',
            '+  spark.driver.extraJavaOptions: "-Xss4m -XX:+ExitOnOutOfMemoryError"',
        ),
        facts(conf={"spark.driver.extraJavaOptions": "-Xss4m"}),
    ),
    Case("local-dirs", "it writes to /tmp", "SPARK_LOCAL_DIRS=FOLDER", local_folder("standalone")),
    Case(
        "exclude-on-failure",
        "spark.excludeOnFailure.enabled is not set, with 2 executors",
        change(
            '-  spark.excludeOnFailure.enabled: ""',
            '+  spark.excludeOnFailure.enabled: "true"',
            '+  spark.excludeOnFailure.timeout: "1h"',
        ),
        facts(conf={"spark.excludeOnFailure.enabled": ""}),
    ),
    Case("file-sink-log", "its sink has no retention", '.option("retention"', facts(query={"file_sink": True})),
    Case(
        "event-log",
        "one file that only grows",
        change('-  spark.eventLog.enabled: "true"', '+  spark.eventLog.enabled: "false"'),
        facts(conf={"spark.eventLog.enabled": "true", "spark.eventLog.rolling.enabled": "false"}),
    ),
    Case(
        "task-failures",
        "spark.task.maxFailures is 4, and 3 executors were lost",
        change('+  spark.task.maxFailures: "8"'),
        facts(vitals={"executors_lost": {"exited": 2, "heartbeat": 1}}),
    ),
    Case(
        "dynamic-allocation",
        "executors go after 60 s without a task, 0 stay, and triggers are 40 s apart",
        change('-  spark.dynamicAllocation.enabled: "true"', '+  spark.dynamicAllocation.enabled: "false"'),
        facts(conf=DYNAMIC),
    ),
    Case(
        "cached-tables",
        "kept once: prices, one without a name",
        ".persist(StorageLevel.MEMORY_AND_DISK_2)",
        facts(environment={"persisted": ({"name": "prices", "replicas": 1}, {"name": "", "replicas": 1})}),
    ),
    Case(
        "rewind-window",
        "100 batches of 2.0 s reach back 200 s",
        change('+  spark.sql.streaming.minBatchesToRetain: "1800"'),
        facts(query={"trigger": {}}, measured={"durations": {"triggerExecution": 2000}}),
    ),
    Case(
        "python-memory",
        "orders: Python runs on the executors",
        change('+  spark.executor.pyspark.memory: "1g"'),
        facts(of={"python_functions": True}),
    ),
    Case(
        "decommission",
        "spark.decommission.enabled is true, and spark.storage.decommission.enabled false",
        change('+  spark.storage.decommission.enabled: "true"'),
        facts(conf={"spark.decommission.enabled": "true"}),
    ),
    Case(
        "shuffle-service",
        "spark.shuffle.service.enabled is false",
        change('+  spark.shuffle.service.enabled: "true"'),
        facts(
            conf={
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.minExecutors": "2",
                "spark.dynamicAllocation.executorIdleTimeout": "10min",
            }
        ),
    ),
    Case(
        "stage-attempts",
        "spark.stage.maxConsecutiveAttempts is 2",
        change('-  spark.stage.maxConsecutiveAttempts: "2"'),
        facts(conf={"spark.stage.maxConsecutiveAttempts": "2"}),
    ),
    Case(
        "consumer-cache",
        "100 partitions for an executor, room for 64",
        change('+  spark.kafka.consumer.cache.capacity: "100"'),
        facts(of={"kafka_partitions": 200}),
    ),
    Case(
        "progress-size",
        "200 updates are kept, each with three offsets of 4000 partitions",
        change('+  spark.sql.streaming.numRecentProgressUpdates: "10"'),
        facts(of={"kafka_partitions": 4000}, conf={"spark.kafka.consumer.cache.capacity": "4000"}),
        besides=("driver-heap",),
    ),
    Case("ulimit", "the driver may open 1024", "LimitNOFILE=65536", facts(environment={"nofile": 1024})),
    Case("queries-share", "2 queries, by FIFO", change('+  spark.scheduler.mode: "FAIR"'), facts(queries=2)),
    Case(
        "fetch-offset-retries",
        "fetchOffset.numRetries is 0",
        '.option("fetchOffset.numRetries", "3")',
        facts(of={"options": {"fetchOffset.numRetries": "0"}}),
    ),
    Case(
        "executor-churn", "40 executors were lost in 10 h", "# read the logs", facts(vitals={"executors_started": 42})
    ),
    Case(
        "driver-log",
        "its log has 2.0 GiB, and 50.0 GiB are free",
        "-Dlog4j2.configurationFile=FILE",
        facts(vitals={"log_bytes": 2 * GIB}),
    ),
    Case(
        "one-executor",
        "it has one executor",
        "# ask for two",
        facts("yarn", vitals={"executors": 1}),
    ),
    Case(
        "catch-up",
        "900 of 1000 records/s arrive: an hour's outage is made up in 9.0 h",
        "# give it more cores",
        facts(measured={"arriving": 900.0}),
    ),
    Case(
        "state-memory",
        "its state takes 2048 of the 4096 MiB",
        change(f'+  {PROVIDER}: "{ROCKSDB[PROVIDER]}"'),
        facts(measured={"state_bytes": 2 * GIB}),
    ),
    Case(
        "shuffle-disk",
        "1.0 GiB are free",
        change('+  spark.cleaner.periodicGC.interval: "10min"'),
        facts(vitals={"local_free": GIB}),
    ),
    Case(
        "listener-queue",
        "7 events were dropped",
        change('+  spark.scheduler.listenerbus.eventqueue.capacity: "50000"'),
        facts(vitals={"events_dropped": 7}),
    ),
    Case("timeouts", "20% of the driver's time", "# give the driver", facts(vitals={"gc_share": 0.2})),
    Case("master-recovery", "spark.deploy.recoveryMode is NONE", "spark.deploy.recoveryMode=FILESYSTEM", master()),
    Case(
        "executor-retries",
        "after 10 tries the application is removed",
        "spark.deploy.maxExecutorRetries=-1",
        facts(vitals={"executors": 1, "executors_started": 1}),
        besides=("one-executor",),
    ),
    Case(
        "spread",
        "as few workers",
        "spark.deploy.spreadOutApps=true",
        facts(cluster={"settings": {**CLUSTERS["standalone"].settings, "spark.deploy.spreadOutApps": "false"}}),
    ),
    Case(
        "executor-log",
        "the log of one executor has 1024 MiB",
        "spark.executor.logs.rolling.strategy=size",
        facts(cluster={"executor_log": GIB}),
    ),
    Case("dead-executor-folders", "30 executors", "# airflow streams restart", facts(cluster={"ended_executors": 30})),
    Case("rm-recovery", f"{RM} is false", f"{RM}=true", yarn(RM, "false")),
    Case("nm-recovery", f"{NM} is false", f"{NM}=true", yarn(NM, "false")),
    Case("yarn-logs", f"{LOGS} is -1", f"{LOGS}=3600", yarn(LOGS, "-1")),
    Case("node-autoscaler", "pod has neither", "annotations: {cluster-autoscaler", pod({"annotations": {}})),
    Case("priority", "pod has none", "priorityClassName: NAME", pod(priorityClassName=None)),
    Case("deadline", "is ended after 3600 s", "# remove activeDeadlineSeconds", pod(activeDeadlineSeconds=3600)),
    Case(
        "spot",
        "spot instance (karpenter.sh/capacity-type)",
        "nodeSelector: {LABEL: VALUE}",
        facts("kubernetes", cluster={"node_labels": {"karpenter.sh/capacity-type": "spot"}}),
    ),
    Case(
        "k8s-disk",
        "nothing limits the volumes work",
        "resources: {limits: {ephemeral-storage: 20Gi}}",
        pod(containers=[{"name": "spark"}]),
    ),
]
ALSO = [
    Case("checkpoint-storage", "has 1 replicas", change('+  spark.hadoop.dfs.replication: "3"'), place(replication=1)),
    Case("local-dirs", "it writes to /tmp", "SPARK_LOCAL_DIRS", local_folder("local")),
    Case(
        "consumer-cache",
        "consumers are closed after 300 s, and triggers are 600 s apart",
        change('+  spark.kafka.consumer.cache.timeout: "1200s"'),
        facts(query={"trigger": LONG}),
    ),
    Case(
        "state-memory",
        "40 stores may take 2720 MiB of an executor, beside its heap 384",
        change('+  spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage: "true"'),
        facts(conf=ROCKSDB, of={"stores": 40}),
    ),
    Case(
        "timeouts",
        "every 100 s, and are lost after 120 s",
        change('-  spark.executor.heartbeatInterval: "100s"'),
        facts(conf={"spark.executor.heartbeatInterval": "100s"}),
    ),
    Case(
        "catch-up",
        "900 records/s arrive, and its best full batch took 800",
        "#",
        facts(measured={"arriving": 900.0, "best_rate": 800.0}),
    ),
    Case(
        "master-recovery",
        "spark.deploy.recoveryDirectory is /tmp/x",
        "spark.deploy.recoveryMode=FILESYSTEM",
        facts(
            cluster={"settings": {"spark.deploy.recoveryMode": "ROCKSDB", "spark.deploy.recoveryDirectory": "/tmp/x"}}
        ),
    ),
]
