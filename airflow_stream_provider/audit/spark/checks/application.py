"""Checks of the settings with which a driver runs, as its record has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from airflow_stream_provider.audit.check import Broken, CheckResult, NotVerifiable, Severity, broken_if
from airflow_stream_provider.audit.spark.facts import SparkFacts, conf, seconds
from airflow_stream_provider.audit.spark.row import SPREAD, driver, row

# Bytes that the driver keeps of one task of a stage, measured with Spark 4.0: 0.4 to 0.5 kB.
TASK_BYTES = 500
HEAP_SHARE = 0.1
ENDS_AT_OOM = ("+ExitOnOutOfMemoryError", "+CrashOnOutOfMemoryError", "OnOutOfMemoryError")
CLEANED = ("/tmp", "/var/tmp")
ATTEMPTS, SPOT_ATTEMPTS = 4, 8
FILES = 65_536
_RETAINED = ("spark.ui.retainedStages=100", "spark.ui.retainedJobs=100", "spark.ui.retainedTasks=2000")


class Misplaced(NamedTuple):
    """Settings that have no effect in an application, on these kinds of clusters."""

    name: str
    kinds: tuple[str, ...]
    where: str


_EVERYWHERE = (*SPREAD, "local")
MISPLACED = (
    Misplaced("spark.executor.logs.rolling.", ("standalone",), "in the spark-defaults.conf of the workers"),
    Misplaced("spark.executor.logs.rolling.", ("yarn", "kubernetes", "local"), "on a standalone cluster"),
    Misplaced("spark.streaming.dynamicAllocation.", _EVERYWHERE, "for DStreams"),
    Misplaced("spark.deploy.", _EVERYWHERE, "in the spark-defaults.conf of the masters"),
    Misplaced("spark.worker.cleanup.", _EVERYWHERE, "in the spark-defaults.conf of the workers"),
    Misplaced("spark.history.", _EVERYWHERE, "at the history server"),
    Misplaced("spark.local.dir", ("yarn",), "elsewhere: YARN gives the folders"),
    Misplaced("spark.task.maxFailures", ("local",), "on a cluster: local[N] tries every task once"),
    Misplaced("spark.executor.failuresValidityInterval", ("standalone", "local"), "on YARN and Kubernetes"),
    Misplaced("spark.executor.maxNumFailures", ("standalone", "local"), "on YARN and Kubernetes"),
)


@dataclass(frozen=True)
class Setting:
    """A setting that stands where nothing reads it."""

    name: str
    where: str

    @property
    def title(self) -> str:
        """Its name in a finding."""
        return f"setting {self.name}"


def _misplaced(facts: SparkFacts) -> Iterable[Setting]:
    for each in MISPLACED:
        if facts.kind in each.kinds:
            yield from (Setting(name, each.where) for name in facts.are_set(each.name))


def _no_effect(setting: Setting, facts: SparkFacts) -> Broken:
    found = f"it is {facts.setting(setting.name)!r} here, and counts only {setting.where}"
    return Broken(found, {"name": setting.name}, result=CheckResult.NO_EFFECT)


def _failures_expire(_: object, facts: SparkFacts) -> Broken | None:
    if facts.flag("spark.dynamicAllocation.enabled"):  # which sets no limit
        return None
    names = ("spark.executor.failuresValidityInterval", "spark.yarn.executor.failuresValidityInterval")
    return broken_if(not any(map(facts.setting, names)), f"{names[0]} is not set")


def _heap(_: object, facts: SparkFacts) -> Broken | None:
    heap = facts.environment.heap_max
    if not heap:
        raise NotVerifiable("How large the driver's heap may be is not known.")
    kept = facts.number("spark.ui.retainedStages"), facts.number("spark.ui.retainedTasks")
    known = (max(q.of.state_partitions or 0, q.of.kafka_partitions or 0) for q in facts.queries)
    tasks = min(kept[1], max(facts.number("spark.sql.shuffle.partitions"), *known, 1))
    most = kept[0] * tasks * TASK_BYTES
    found = f"{kept[0]} stages of {tasks} tasks take up to {most / 2**20:.0f} of {heap / 2**20:.0f} MiB"
    return broken_if(most > HEAP_SHARE * heap, found)


def _ends_at_oom(_: object, facts: SparkFacts) -> Broken | None:
    names = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
    said = {name: facts.setting(name) for name in names}
    ends = any(option in text for text in said.values() for option in ENDS_AT_OOM)
    options = f"{said[names[0]]} -XX:+ExitOnOutOfMemoryError".strip()
    return broken_if(not ends, "no Java option ends the driver then", options=options)


def _local_dirs(_: object, facts: SparkFacts) -> Broken | None:
    places = facts.environment.places
    paths = [str(place.get("path")) for name, place in places.items() if name.startswith("local folder")]
    bad = [path for path in paths if any(path == each or path.startswith(f"{each}/") for each in CLEANED)]
    return broken_if(bad, f"it writes to {', '.join(bad)}")


def _exclude(_: object, facts: SparkFacts) -> Broken | None:
    names = ("spark.excludeOnFailure.enabled", "spark.excludeOnFailure.taskAndStage.enabled")
    if any(map(facts.flag, names)) or facts.executors < 2:
        return None
    return Broken(f"{names[0]} is not set, with {facts.executors} executors")


def _event_log(_: object, facts: SparkFacts) -> Broken | None:
    if not facts.flag("spark.eventLog.enabled"):
        return None
    if facts.flag("spark.eventLog.rolling.enabled"):
        raise NotVerifiable("The event log rolls; whether the history server compacts it, it alone knows.")
    return Broken("the event log is one file that only grows")


def _task_failures(_: object, facts: SparkFacts) -> Broken | None:
    tries, lost = facts.number("spark.task.maxFailures"), sum((facts.vitals.get("executors_lost") or {}).values())
    wanted = SPOT_ATTEMPTS if lost else ATTEMPTS
    after = f", and {lost} executors were lost" if lost else ""
    return broken_if(tries < wanted, f"spark.task.maxFailures is {tries}{after}", value=wanted)


def _dynamic(_: object, facts: SparkFacts) -> Broken | None:
    if not facts.flag("spark.dynamicAllocation.enabled"):
        return None
    name = "spark.dynamicAllocation.executorIdleTimeout"
    idle, least = seconds(facts.setting(name)), facts.number("spark.dynamicAllocation.minExecutors")
    trigger = max((query.trigger_seconds for query in facts.queries), default=0.0)
    found = f"executors go after {idle:.0f} s without a task, {least} stay, and triggers are {trigger:.0f} s apart"
    return broken_if(least < 1 or idle <= 3 * trigger, found)


def _cached(_: object, facts: SparkFacts) -> Broken | None:
    once = [each for each in facts.environment.persisted if each.get("replicas") == 1]
    names = ", ".join(str(each.get("name") or "one without a name") for each in once)
    return broken_if(once, f"kept once: {names}")


def _python(_: object, facts: SparkFacts) -> Broken | None:
    calling = [query.name for query in facts.queries if query.of.python_functions]
    unlimited = calling and not facts.setting("spark.executor.pyspark.memory")
    return broken_if(unlimited, f"{', '.join(calling)}: Python runs on the executors, without a limit")


def _files(_: object, facts: SparkFacts) -> Broken | None:
    may = facts.environment.nofile
    if not may:
        raise NotVerifiable("How many files the driver may open is not known.")
    return broken_if(0 < may < FILES, f"the driver may open {may}")


def _pools(_: object, facts: SparkFacts) -> Broken | None:
    mode = facts.setting("spark.scheduler.mode").upper()
    return broken_if(len(facts.queries) > 1 and mode != "FAIR", f"{len(facts.queries)} queries, by {mode}")


CHECKS = (
    row(
        "settings-without-effect",
        Severity.MEDIUM,
        _misplaced,
        "no setting where nothing reads it",
        "What it was meant to prevent happens all the same.",
        conf("{name}="),
        _no_effect,
    ),
    row(
        "executor-failures-expire",
        Severity.HIGH,
        driver("yarn", "kubernetes"),
        "failures of executors that are forgotten after an hour",
        "By default they add up for the driver's life: the fifth lost executor in months ends a driver with two.",
        conf("spark.executor.failuresValidityInterval=1h"),
        _failures_expire,
    ),
    row(
        "driver-heap",
        Severity.HIGH,
        driver(),
        f"at most {HEAP_SHARE:.0%} of the driver's heap for what Spark's UI keeps",
        "Spark keeps stages, tasks and executions of the past in the driver, which ends by it after days.",
        conf(*_RETAINED, "spark.sql.ui.retainedExecutions=50"),
        _heap,
    ),
    row(
        "driver-exits-on-oom",
        Severity.HIGH,
        driver(),
        "a driver that ends when its memory is used up",
        "The error ends one thread, and the driver goes on without it.",
        conf("spark.driver.extraJavaOptions={options}"),
        _ends_at_oom,
    ),
    row(
        "local-dirs",
        Severity.HIGH,
        driver("standalone", "local"),
        "local folders that nothing cleans, outside of /tmp",
        "A cleaner of /tmp removes state and shuffle files of a stream that has run for ten days.",
        "SPARK_LOCAL_DIRS=FOLDER  # in every worker's spark-env.sh; then restart one by one",
        _local_dirs,
    ),
    row(
        "exclude-on-failure",
        Severity.HIGH,
        driver(*SPREAD),
        "spark.excludeOnFailure.enabled=true with two executors or more",
        "State and Kafka's consumers draw all tries of a task to the same sick executor: the query fails beside a "
        "healthy one, again and again.",
        conf("spark.excludeOnFailure.enabled=true", "spark.excludeOnFailure.timeout=1h"),
        _exclude,
    ),
    row(
        "event-log",
        Severity.MEDIUM,
        driver(),
        "no event log, or one that rolls and that the history server compacts",
        "It grows by about 1.5 GB a day at a batch a second, and rolling alone deletes nothing.",
        conf("spark.eventLog.enabled=false"),
        _event_log,
    ),
    row(
        "task-failures",
        Severity.MEDIUM,
        driver(*SPREAD),
        f"spark.task.maxFailures of {ATTEMPTS}, or {SPOT_ATTEMPTS} where executors are lost",
        "Each lost executor is a failed try of its tasks; the last one fails the query.",
        conf("spark.task.maxFailures={value}"),
        _task_failures,
    ),
    row(
        "dynamic-allocation",
        Severity.MEDIUM,
        driver(*SPREAD),
        "no dynamic allocation, or one that keeps executors between two batches",
        "Executors go between two batches. Each batch waits for new ones, which load the state: nine times longer.",
        conf("spark.dynamicAllocation.enabled=false"),
        _dynamic,
    ),
    row(
        "cached-tables",
        Severity.LOW,
        driver(*SPREAD),
        "two replicas of tables that are cached",
        "What is lost with an executor is read again inside a batch, as its source is by then.",
        ".persist(StorageLevel.MEMORY_AND_DISK_2)  # where the script caches a table",
        _cached,
    ),
    row(
        "python-memory",
        Severity.MEDIUM,
        driver(*SPREAD),
        "spark.executor.pyspark.memory where Python runs on the executors",
        "Without a limit the kernel ends whatever is largest, such as the JVM beside it.",
        conf("spark.executor.pyspark.memory=1g"),
        _python,
    ),
    row(
        "decommission",
        Severity.LOW,
        driver("standalone", "kubernetes"),
        "spark.storage.decommission.enabled=true with spark.decommission.enabled",
        "Else an executor that goes takes along the shuffle files of the batch that runs.",
        conf("spark.storage.decommission.enabled=true"),
        lambda _, facts: broken_if(
            facts.flag("spark.decommission.enabled") and not facts.flag("spark.storage.decommission.enabled"),
            "spark.decommission.enabled is true, and spark.storage.decommission.enabled false",
        ),
    ),
    row(
        "shuffle-service",
        Severity.INFO,
        driver("standalone", "yarn"),
        "an external shuffle service with dynamic allocation",
        "Shuffle files go with their executor, and batches of more than a minute compute much again.",
        conf("spark.shuffle.service.enabled=true"),
        lambda _, facts: broken_if(
            facts.flag("spark.dynamicAllocation.enabled") and not facts.flag("spark.shuffle.service.enabled"),
            "spark.shuffle.service.enabled is false",
        ),
    ),
    row(
        "stage-attempts",
        Severity.INFO,
        driver(*SPREAD),
        f"spark.stage.maxConsecutiveAttempts of {ATTEMPTS} or more",
        "Fewer lost executors in a row fail the query.",
        conf("spark.stage.maxConsecutiveAttempts="),
        lambda _, facts: broken_if(
            (tries := facts.number("spark.stage.maxConsecutiveAttempts", ATTEMPTS)) < ATTEMPTS,
            f"spark.stage.maxConsecutiveAttempts is {tries}",
        ),
    ),
    row(
        "ulimit",
        Severity.LOW,
        driver(),
        f"{FILES:,} open files",
        "State in RocksDB and many queries open very many, and fail by chance.",
        f"LimitNOFILE={FILES}  # of the service that starts Spark's processes; then restart it",
        _files,
    ),
    row(
        "queries-share",
        Severity.LOW,
        driver(),
        "spark.scheduler.mode=FAIR with two queries or more",
        "A long batch of one query holds up those of the others.",
        conf("spark.scheduler.mode=FAIR"),
        _pools,
    ),
)
