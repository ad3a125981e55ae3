"""Checks of what a driver measures once a minute while it runs."""

from __future__ import annotations

from airflow_stream_provider.audit.check import Broken, NotVerifiable, Severity, broken_if
from airflow_stream_provider.audit.spark.facts import Query, SparkFacts, conf, seconds, size
from airflow_stream_provider.audit.spark.row import SPREAD, driver, queries, row

GIB = 2**30
LOG_BYTES = GIB
LOCAL_BYTES = 10 * GIB
LOST_AN_HOUR = 3
UTILISATION = 0.7
STATE_SHARE = 0.3
# A state store in RocksDB has two write buffers of 64 MB and a cache of 8 MB by default.
STORE_BYTES = 136 * 2**20
LEAST_OVERHEAD = 384 * 2**20
GC_SHARE = 0.1
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_BOUNDED = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"


def _churn(_: object, facts: SparkFacts) -> Broken | None:
    lost = facts.measured("executors_started") - facts.measured("executors")
    if facts.hours is None or facts.hours < 1:
        raise NotVerifiable("The driver has not run for an hour yet.")
    return broken_if(lost / facts.hours > LOST_AN_HOUR, f"{lost} executors were lost in {facts.hours:.0f} h")


def _driver_log(_: object, facts: SparkFacts) -> Broken | None:
    written, free = facts.measured("log_bytes"), facts.measured("log_free")
    found = f"its log has {written / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free beside it"
    return broken_if(written > LOG_BYTES or free < written, found)


def _catch_up(query: Query, _: SparkFacts) -> Broken | None:
    best, arriving = query.measured("best_rate"), query.measured("arriving")
    if best <= arriving:
        return Broken(f"{arriving:.0f} records/s arrive, and its best full batch took {best:.0f}")
    found = f"{arriving:.0f} of {best:.0f} records/s arrive: an hour's outage is made up in "
    return broken_if(arriving > UTILISATION * best, f"{found}{arriving / (best - arriving):.1f} h")


def _state_memory(query: Query, facts: SparkFacts) -> Broken | None:
    if query.of.state_partitions == 0:
        return None
    if "RocksDB" in facts.setting(_PROVIDER):
        return _rocksdb(query, facts)
    kept, room = query.measured("state_bytes"), facts.executors * size(facts.setting("spark.executor.memory"), "m")
    found = f"its state takes {kept / 2**20:.0f} of the {room / 2**20:.0f} MiB of all executors' heaps"
    return broken_if(kept > STATE_SHARE * room, found)


def _rocksdb(query: Query, facts: SparkFacts) -> Broken | None:
    if facts.flag(_BOUNDED):
        return None
    if query.of.stores is None:
        raise NotVerifiable("How many state stores it has is not known before its first batch.")
    heap, set_to = size(facts.setting("spark.executor.memory"), "m"), facts.setting("spark.executor.memoryOverhead")
    share = float(facts.setting("spark.executor.memoryOverheadFactor") or 0.1)
    room = size(set_to, "m") if set_to else max(LEAST_OVERHEAD, int(share * heap))
    most = query.of.stores / facts.executors * STORE_BYTES
    found = (
        f"{query.of.stores} stores may take {most / 2**20:.0f} MiB of an executor, beside its heap {room / 2**20:.0f}"
    )
    return broken_if(most > room, found, fix=conf(f"{_BOUNDED}=true"))


def _shuffle_disk(_: object, facts: SparkFacts) -> Broken | None:
    free = facts.measured("local_free")
    return broken_if(free < LOCAL_BYTES, f"{free / GIB:.1f} GiB are free in its local folders")


def _timeouts(_: object, facts: SparkFacts) -> Broken | None:
    beat, limit = (
        seconds(facts.setting(f"spark.{name}")) for name in ("executor.heartbeatInterval", "network.timeout")
    )
    if 3 * beat > limit:
        found = f"executors say that they live every {beat:.0f} s, and are lost after {limit:.0f} s"
        return Broken(found, fix=conf("spark.executor.heartbeatInterval=", "spark.network.timeout="))
    share = facts.measured("gc_share")
    return broken_if(share > GC_SHARE, f"{share:.0%} of the driver's time goes to garbage collection")


CHECKS = (
    row(
        "executor-churn",
        Severity.HIGH,
        driver(*SPREAD),
        f"at most {LOST_AN_HOUR} lost executors an hour",
        "A standalone master starts executors that cannot live again for ever, 25 a second; each leaves a folder.",
        "# read the logs of the executors that were lost, on the cluster's pages",
        _churn,
    ),
    row(
        "driver-log",
        Severity.HIGH,
        driver("standalone", "yarn"),
        "a driver's log below 1 GiB, and more free space beside it than it has",
        "Nothing rolls it there, and a full disk ends everything on the machine.",
        "-Dlog4j2.configurationFile=FILE  # in spark.driver.extraJavaOptions: a file with a RollingFile appender",
        _driver_log,
    ),
    row(
        "one-executor",
        Severity.MEDIUM,
        driver(*SPREAD),
        "two executors or more",
        "The stream stands until another one is up.",
        "# ask for two: spark.executor.cores below spark.cores.max, or spark.executor.instances=2",
        lambda _, facts: broken_if(facts.executors == 1, "it has one executor"),
    ),
    row(
        "catch-up",
        Severity.HIGH,
        queries(),
        f"records arrive at {UTILISATION:.0%} of what it can process, or less",
        "After an outage it stays behind, and Kafka deletes what it has not read.",
        "# give it more cores, and its topics more partitions",
        _catch_up,
    ),
    row(
        "state-memory",
        Severity.HIGH,
        queries(*SPREAD),
        f"state in RocksDB with bounded memory, or below {STATE_SHARE:.0%} of the executors' heaps",
        "The executors pause for garbage collection, run out of memory, or are ended for it.",
        conf(f"{_PROVIDER}={_ROCKSDB}", f"{_BOUNDED}=true"),
        _state_memory,
    ),
    row(
        "shuffle-disk",
        Severity.MEDIUM,
        driver(),
        "10 GiB free in the local folders",
        "Shuffle files go only when the driver collects garbage, which a large idle heap does rarely.",
        conf("spark.cleaner.periodicGC.interval=10min"),
        _shuffle_disk,
    ),
    row(
        "listener-queue",
        Severity.MEDIUM,
        driver(),
        "no dropped events of Spark's listeners",
        "Spark's UI and dynamic allocation are wrong from then on.",
        conf("spark.scheduler.listenerbus.eventqueue.capacity=50000"),
        lambda _, facts: broken_if(n := facts.measured("events_dropped"), f"{n} events were dropped"),
    ),
    row(
        "timeouts",
        Severity.INFO,
        driver(*SPREAD),
        f"heartbeats of executors well below spark.network.timeout, and at most {GC_SHARE:.0%} of the time for garbage",
        "A long pause loses an executor.",
        "# give the driver more memory, or see `driver-heap` and `state-memory`",
        _timeouts,
    ),
)
