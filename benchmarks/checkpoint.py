"""What a micro-batch costs in its checkpoint, on each storage, and what settings save of that.

    python -m benchmarks.checkpoint [--rounds 2] [--batches 30] [--storages file hdfs s3a] [--sides ...]

Two queries without a job to speak of: `logs`, which writes offsets and commits only, and `state`, an aggregation with
state in one partition. Sides take turns; each run has a checkpoint of its own. Batches are counted when old files are
purged as well. On HDFS the NameNode counts the calls of its clients, on S3A moto writes a line for each request, and in
a folder the kernel tells of files that are created, renamed, deleted and opened; `chmod` is a change of a file's mode,
for which Hadoop starts a process where its native library is missing, as in pyspark.

`wal + commit` is Spark's own time for both logs of a batch. What a keeper of offsets and commits in another place (a
database, a topic) could save at most is their share: what `logs` costs, of what `state` costs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import statistics
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_stream_provider.clusters.spark_defaults import HDFS_DEFAULTS
from benchmarks.results import machine, show_counts, write
from benchmarks.spark import session
from benchmarks.storage_requests import Counted, hdfs, s3a
from devstack.jars import spark_cloud, spark_s3a
from devstack.spark import bundled_spark

FIRST = 6  # counted batches begin behind it
SECONDS = 600.0  # in which a query has to get on
# On all sides: old files are purged from batch 4 on, and no side uses a file system that another one has set up.
EVERYWHERE = {"spark.sql.streaming.minBatchesToRetain": "4", "fs.s3a.impl.disable.cache": "true"}
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
# It loses writes that the storage refuses (docs/guarantees.md): only to see what a manager without renames would save.
ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
DEFAULT = "default"
SIDES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "file": {
        DEFAULT: {},
        "RawLocalFs": {"fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs"},
    },
    "hdfs": {
        DEFAULT: {},
        "locateFollowingBlock": {key.removeprefix("spark.hadoop."): value for key, value in HDFS_DEFAULTS.items()},
        "FileSystem manager": {MANAGER: FILE_SYSTEM},
    },
    "s3a": {
        DEFAULT: {},
        "create.performance": {"fs.s3a.create.performance": "true"},
        "performance.flags": {"fs.s3a.performance.flags": "create,delete,mkdir,open"},
        "FileSystem manager": {MANAGER: FILE_SYSTEM},
        "abortable manager": {MANAGER: ABORTABLE},
    },
}
QUERIES = ("logs", "state")


class Watch:
    """Counts what the kernel tells of the files below a folder, by inotify."""

    KINDS: Mapping[str, int] = {"create": 0x100, "rename": 0x80, "delete": 0x200, "chmod": 0x4, "open": 0x20}
    _FOLDER = 0x40000000

    def __init__(self, root: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK)
        self._folders: dict[int, Path] = {}
        self._counts: Counter[str] = Counter()
        self._add(root)

    def count(self) -> Counter[str]:
        """Return how often each kind of thing has happened until now."""
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self._descriptor, 1 << 20):
                at = 0
                while at < len(events):
                    folder, mask, _, size = struct.unpack_from("iIII", events, at)
                    name = events[at + 16 : at + 16 + size].rstrip(b"\0").decode()
                    at += 16 + size
                    if mask & self._FOLDER:
                        if mask & self.KINDS["create"]:
                            self._add(self._folders[folder] / name)
                        continue
                    self._counts.update(kind for kind, bit in self.KINDS.items() if mask & bit)
        return Counter(self._counts)

    def close(self) -> None:
        """Stop."""
        os.close(self._descriptor)

    def _add(self, folder: Path) -> None:
        for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            number = self._libc.inotify_add_watch(self._descriptor, str(each).encode(), sum(self.KINDS.values()))
            self._folders[number] = each


@contextmanager
def folder(root: Path) -> Iterator[Counted]:
    """Use a folder of this machine."""
    with contextlib.closing(Watch(root)) as watch:
        yield Counted(root.as_uri(), {}, watch.count)


STORAGES: Mapping[str, Callable[[Path], AbstractContextManager[Counted]]] = {"file": folder, "hdfs": hdfs, "s3a": s3a}


@dataclass(frozen=True)
class Cost:
    """What one run has cost: requests by kind, of so many batches; and milliseconds of `wal + commit` of each."""

    requests: Counter[str]
    batches: int
    milliseconds: Sequence[float]

    @property
    def per_batch(self) -> float:
        """Requests of one batch."""
        return self.requests.total() / self.batches


def frame(spark: SparkSession, query: str) -> DataFrame:
    """Return what a query writes."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).option("numPartitions", 1).load()
    return rows if query == "logs" else rows.groupBy((F.col("value") % 97).alias("key")).count()


def cost(spark: SparkSession, storage: Counted, settings: Mapping[str, str], query: str, batches: int) -> Cost:
    """Return what so many batches cost: the cost of a long run less that of a short one.

    Counted within one run, they would be those of a moment before: see `Counted.late`.
    """
    short, long = (ran(spark, storage, settings, query, last) for last in (FIRST, FIRST + batches))
    return Cost(long.requests - short.requests, long.batches - short.batches, long.milliseconds[short.batches :])


def ran(spark: SparkSession, storage: Counted, settings: Mapping[str, str], query: str, last: int) -> Cost:
    """Run a query on a new checkpoint until this batch, and return what the whole run has cost."""
    conf = {key.removeprefix("spark.hadoop."): value for key, value in storage.conf.items()} | dict(settings)
    session = spark.newSession()
    for key, value in {**EVERYWHERE, **conf}.items():
        if key != "spark.driver.extraClassPath":
            session.conf.set(key, value)
    writer = frame(session, query).writeStream.format("noop").outputMode("update")
    before = storage.count_all()
    running = writer.option("checkpointLocation", f"{storage.url}/{query}-{time.time_ns()}").start()
    deadline = time.monotonic() + SECONDS
    try:
        while (found := running.lastProgress) is None or found["batchId"] < last:
            if (error := running.exception()) is not None:
                raise SystemExit(f"{query} with {dict(settings)}: {error}")
            if time.monotonic() > deadline:
                raise SystemExit(f"{query} with {dict(settings)} has not reached batch {last}")
            storage.count()  # the kernel's queue of events is bounded
            time.sleep(0.02)
    finally:
        running.stop()
    spent = [each["durationMs"] for each in running.recentProgress if "walCommit" in each["durationMs"]]
    milliseconds = [each["walCommit"] + each["commitOffsets"] for each in spent]
    return Cost(storage.count_all() - before, len(milliseconds), milliseconds)


Found = Mapping[str, Mapping[str, Sequence[Cost]]]
"""Costs by query and side."""


def measured(
    spark: SparkSession, place: str, sides: Mapping[str, Mapping[str, str]], rounds: int, batches: int
) -> Found:
    """Return what each side costs on one storage."""
    found: dict[str, dict[str, list[Cost]]] = {query: {side: [] for side in sides} for query in QUERIES}
    with tempfile.TemporaryDirectory() as root, STORAGES[place](Path(root)) as storage:
        for number in range(rounds):
            for query in QUERIES:
                for side, settings in sides.items():
                    one = cost(spark, storage, settings, query, batches)
                    found[query][side].append(one)
                    milliseconds = statistics.median(one.milliseconds)
                    said = f"{one.per_batch:.2f} requests per batch, wal + commit {milliseconds:.0f} ms"
                    print(f"{place}, round {number + 1}, {query}, {side}: {said}", flush=True)
    return found


def report(place: str, found: Found) -> dict[str, Any]:
    """Print what was found on one storage, and return it."""
    body: dict[str, Any] = {}
    for query, sides in found.items():
        counts = {side: by_kind(costs) for side, costs in sides.items()}
        show_counts(f"{place}, {query}: requests per batch", counts)
        totals = {side: round(sum(kinds.values()), 2) for side, kinds in counts.items()}
        spent = {side: [ms for one in costs for ms in one.milliseconds] for side, costs in sides.items()}
        medians = {side: round(statistics.median(ms), 1) for side, ms in spent.items()}
        body[query] = {
            "requests": counts,
            "wal_and_commit_ms": medians,
            "requests_to_default": {side: round(total / totals[DEFAULT], 2) for side, total in totals.items()},
            "ms_to_default": {side: round(ms / medians[DEFAULT], 2) for side, ms in medians.items()},
        }
        for side in sides:
            requests, ms = body[query]["requests_to_default"][side], body[query]["ms_to_default"][side]
            print(f"{place}, {query}, {side}: requests x {requests}, wal + commit {medians[side]} ms, x {ms}")
    share = {side: round(of_logs(found, side), 2) for side in found["state"]}
    print(f"{place}: offsets and commits are of all requests of a query with state in one partition: {share}")
    return {**body, "share_of_logs": share}


def by_kind(costs: Sequence[Cost]) -> dict[str, float]:
    """Return the requests of a batch by kind, over all runs of a side."""
    total = sum((one.requests for one in costs), Counter[str]())
    return {kind: count / sum(one.batches for one in costs) for kind, count in total.items()}


def of_logs(found: Found, side: str) -> float:
    """Return the share that offsets and commits have in the requests of the query with state."""
    logs, state = (sum(by_kind(found[query][side]).values()) for query in QUERIES)
    return logs / state


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--storages", nargs="+", choices=STORAGES, default=list(STORAGES))
    parser.add_argument("--sides", nargs="+", help=f"beside {DEFAULT}; default: all")
    options = parser.parse_args()
    before = machine()
    body: dict[str, Any] = {}
    home = bundled_spark()
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
    }
    with session("checkpoints", [spark_s3a(home), spark_cloud(home)], conf=conf) as spark:
        for place in options.storages:
            chosen = options.sides or SIDES[place]
            sides = {side: each for side, each in SIDES[place].items() if side == DEFAULT or side in chosen}
            body[place] = report(place, measured(spark, place, sides, options.rounds, options.batches))
    write("checkpoint", {**body, "machine": before})
    return 0


if __name__ == "__main__":
    sys.exit(main())
