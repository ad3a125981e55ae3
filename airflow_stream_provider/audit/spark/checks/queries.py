"""Checks of each query: where its checkpoint is, its sink, its sources, and how much of it is kept."""

from __future__ import annotations

import math

from airflow_stream_provider.audit.check import Broken, NotVerifiable, Severity, broken_if
from airflow_stream_provider.audit.spark.facts import Query, SparkFacts, conf, seconds
from airflow_stream_provider.audit.spark.row import SPREAD, queries, row

# File systems of one machine (proc(5)).
LOCAL_MOUNTS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "ramfs")
REPLICAS = 3
# Sinks to which both copies of a speculated task write.
WRITING_SINKS = ("foreach", "foreachBatch", "kafka")
REWIND_SECONDS = 3600.0
MANY_PARTITIONS, FEW_UPDATES = 2000, 10
_MORE_REPLICAS = conf(f"spark.hadoop.dfs.replication={REPLICAS}")


def _storage(query: Query, facts: SparkFacts) -> Broken | None:
    place = facts.environment.places.get(f"checkpoint of {query.name}", {})
    mount, replication = place.get("mount"), place.get("replication")
    if not mount:
        raise NotVerifiable("On which kind of file system its checkpoint is, the driver could not tell.")
    if isinstance(replication, int) and replication < REPLICAS:
        return Broken(f"{place.get('path')} has {replication} replicas of every block", fix=_MORE_REPLICAS)
    return broken_if(mount in LOCAL_MOUNTS, f"{place.get('path')} is on a disk of one machine ({mount})")


def _speculation(query: Query, facts: SparkFacts) -> Broken | None:
    doubles = facts.flag("spark.speculation") and query.sink in WRITING_SINKS
    return broken_if(doubles, f"spark.speculation is true, and the sink is {query.sink}")


def _sink_log(query: Query, _: SparkFacts) -> Broken | None:
    if query.file_sink is None:
        raise NotVerifiable("Whether Spark writes it with its file sink is not known.")
    return broken_if(query.file_sink and "retention" not in query.of.options, "its sink has no retention")


def _rewind(query: Query, facts: SparkFacts) -> Broken | None:
    took = (query.vitals.get("durations") or {}).get("triggerExecution")
    each = max(query.trigger_seconds, took / 1000 if took else query.batch_seconds or 0.0)
    if not each:
        raise NotVerifiable("How far apart its batches are is not known before its first one.")
    batches = facts.number("spark.sql.streaming.minBatchesToRetain")
    found = f"{batches} batches of {each:.1f} s reach back {batches * each:.0f} s"
    return broken_if(batches * each < REWIND_SECONDS, found, value=math.ceil(REWIND_SECONDS / each))


def _consumers(query: Query, facts: SparkFacts) -> Broken | None:
    if query.of.kafka_partitions is None:
        return None
    each, room = query.of.kafka_partitions / facts.executors, facts.number("spark.kafka.consumer.cache.capacity")
    idle = seconds(facts.setting("spark.kafka.consumer.cache.timeout"))
    if idle <= query.trigger_seconds:
        found = f"consumers are closed after {idle:.0f} s, and triggers are {query.trigger_seconds:.0f} s apart"
        return Broken(found, fix=conf(f"spark.kafka.consumer.cache.timeout={2 * query.trigger_seconds:.0f}s"))
    return broken_if(each > room, f"{each:.0f} partitions for an executor, room for {room}", value=math.ceil(each))


def _progress(query: Query, facts: SparkFacts) -> Broken | None:
    partitions = query.of.kafka_partitions or 0
    kept = facts.number("spark.sql.streaming.numRecentProgressUpdates")
    kept += facts.number("spark.sql.streaming.ui.retainedProgressUpdates")
    bad = partitions > MANY_PARTITIONS and kept > 2 * FEW_UPDATES
    return broken_if(bad, f"{kept} updates are kept, each with three offsets of {partitions} partitions")


def _fetch(query: Query, _: SparkFacts) -> Broken | None:
    given = query.of.options.get("fetchOffset.numRetries", "3")
    return broken_if(given.isdecimal() and int(given) < 3, f"fetchOffset.numRetries is {given}")


CHECKS = (
    row(
        "checkpoint-storage",
        Severity.CRITICAL,
        queries(),
        f"a checkpoint on storage that all machines share, with {REPLICAS} replicas or more of it in HDFS",
        "The machine takes offsets and state with it. With executors on two hosts, parts of the state are on each.",
        "# stop the stream, copy the checkpoint to shared storage, and deploy with both in `changed_checkpoints`",
        _storage,
    ),
    row(
        "speculation",
        Severity.HIGH,
        queries(*SPREAD),
        "spark.speculation=false with a sink of Kafka, foreach or foreachBatch",
        "Both copies of a task write: of 160 records 30 came twice, without any fault.",
        conf("spark.speculation=false"),
        _speculation,
    ),
    row(
        "file-sink-log",
        Severity.HIGH,
        queries(),
        "the option retention at a file sink",
        "Its log names every file that was ever written. It is written anew every ten batches and read at each start.",
        '.option("retention", "7d")  # on the query\'s sink: longer than any reader is behind',
        _sink_log,
    ),
    row(
        "rewind-window",
        Severity.MEDIUM,
        queries(),
        "batches of an hour or more in the checkpoint",
        "A roll-back and a rewind reach back no further.",
        conf("spark.sql.streaming.minBatchesToRetain={value}"),
        _rewind,
    ),
    row(
        "consumer-cache",
        Severity.LOW,
        queries(),
        "room for a consumer of every partition, for longer than a trigger",
        "Every batch makes new consumers.",
        conf("spark.kafka.consumer.cache.capacity={value}"),
        _consumers,
    ),
    row(
        "progress-size",
        Severity.LOW,
        queries(),
        f"{FEW_UPDATES} kept updates of the progress of a query of more than {MANY_PARTITIONS} partitions",
        "Each has all offsets three times, in the driver's heap.",
        conf(
            f"spark.sql.streaming.numRecentProgressUpdates={FEW_UPDATES}",
            f"spark.sql.streaming.ui.retainedProgressUpdates={FEW_UPDATES}",
        ),
        _progress,
    ),
    row(
        "fetch-offset-retries",
        Severity.INFO,
        queries(),
        "fetchOffset.numRetries of 3 or more",
        "A leader that moves fails the query, which is started again.",
        '.option("fetchOffset.numRetries", "3")  # on the query\'s Kafka source',
        _fetch,
    ),
)
