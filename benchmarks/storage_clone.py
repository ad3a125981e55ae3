"""What the clone of 1 GiB of state takes on which a standby rehearses, and a plain copy of it, on each storage.

    python -m benchmarks.storage_clone [--rounds 3]

The checkpoint is that of an aggregation with 200 partitions, Spark's default: in each a snapshot of 5.3 MB and five
deltas of 20 KB. `clone` is `clone_state`, as a standby calls it; `plain` is what there is without it: `cp -r` for a
folder, and for any other storage Hadoop's `FileUtil.copy` through the same JVM, which is one of 1 GB, as Spark's driver
has by default. Sides take turns; what was written before is on the disk by then, and what is read is in the page cache.

How the clone was made is told by what is seen of it: in a folder, whether its files are the original's; elsewhere, how
many bytes the JVM has read, as Hadoop counts them. HDFS has neither links nor a copy on its servers, so no target.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint import clone_logs, clone_state, locate, rehearsal_folder
from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import files_of, reach
from airflow_stream_provider.clusters.spark_defaults import HDFS_DEFAULTS
from airflow_stream_provider.runtime import places
from benchmarks.results import machine, show, spread, write
from benchmarks.spark import session
from devstack import checkpoint_trees
from devstack.jars import spark_s3a
from devstack.places import FILE, HDFS, open_storage
from devstack.spark import bundled_spark

S3PROXY = "s3proxy"
SIZE = 2**30
PARTITIONS, DELTAS, DELTA_BYTES = 200, 5, 20 * 2**10
SNAPSHOT_BYTES = SIZE // PARTITIONS - DELTAS * DELTA_BYTES
# Committed ones: the state is at version 20, a snapshot of 15 and the deltas behind it.
BATCHES = 20
WANTED_SECONDS = 10.0
INCARNATION = "orders-1.0000000a"


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint on one storage.

    :param place: where it is.
    :param spark: of its JVM, which reaches the storage.
    """

    place: Place
    spark: SparkSession

    def fill(self, folder: Path) -> None:
        """Write it; `folder`: a folder here for what is copied there."""
        tree = checkpoint_trees.new(folder / "tree")
        for batch in range(BATCHES):
            checkpoint_trees.plan(tree, batch, checkpoint_trees.kafka(orders=dict.fromkeys(range(12), batch)))
            checkpoint_trees.commit(tree, batch)
        checkpoint_trees.operator(tree, 0, "stateStoreSave", PARTITIONS)
        for name in sorted(checkpoint_trees.names(tree)):
            files_of(self.place).write(self.place / name, (tree / name).read_bytes())
        snapshot, delta = folder / "snapshot", folder / "delta"
        snapshot.write_bytes(os.urandom(SNAPSHOT_BYTES))
        delta.write_bytes(os.urandom(DELTA_BYTES))
        version = BATCHES - DELTAS
        files = {f"{version}.snapshot": snapshot}
        files.update({f"{number}.delta": delta for number in range(version + 1, BATCHES + 1)})
        # By Hadoop also into a folder, where it writes its checksum files.
        with ThreadPoolExecutor(8) as pool:
            copied = [
                pool.submit(self._copy, file, self.place / f"state/0/{partition}/{name}")
                for partition in range(PARTITIONS)
                for name, file in files.items()
            ]
            for each in copied:
                each.result()

    def target(self) -> Place:
        """Return a place for a clone; nothing is there."""
        return rehearsal_folder(self.place, INCARNATION) / str(uuid.uuid4())

    def clone_logs(self) -> None:
        """Clone what holds no state, as a standby does first; and remove it again."""
        to = self.target()
        clone_logs(self.place, to, str(uuid.uuid4()))
        files_of(to).remove(to.parent)

    def clone(self, to: Place) -> None:
        """Clone it as a standby does."""
        size = clone_state(self.place, to, str(uuid.uuid4()), 2 * SIZE).bytes
        if size < SIZE:
            raise SystemExit(f"the clone has {size} bytes")

    def plain(self, to: Place) -> None:
        """Copy it as people do."""
        if isinstance(self.place, Path):
            subprocess.run(["cp", "-r", str(self.place), str(to)], check=True)
        else:
            self._copy(self.place, to)

    def way(self, clone: Place, read: int) -> str:
        """Say how a clone was made; `read`: the bytes that the JVM has read meanwhile."""
        if isinstance(self.place, Path):
            name = f"state/0/0/{BATCHES}.delta"
            linked = os.path.samefile(self.place / name, str(clone / name))
            return "links" if linked else "copied by the driver's Python"
        return "copied inside the store" if read < SIZE / 2 else "copied through the driver's JVM"

    def read_by_jvm(self) -> int:
        """Return how many bytes the JVM has read from file systems until now."""
        return sum(int(each.getBytesRead()) for each in self._hadoop.FileSystem.getAllStatistics())

    def _copy(self, source: Place, target: Place) -> None:
        session: Any = self.spark
        conf = session._jsparkSession.sessionState().newHadoopConf()
        one, other = (self._hadoop.Path(str(each)) for each in (source, target))
        if not self._hadoop.FileUtil.copy(one.getFileSystem(conf), one, other.getFileSystem(conf), other, False, conf):
            raise SystemExit(f"{source} was not copied to {target}")

    @property
    def _hadoop(self) -> Any:
        session: Any = self.spark
        return session._jvm.org.apache.hadoop.fs


def timed(checkpoint: Checkpoint, make: Callable[[Place], None]) -> tuple[float, str]:
    """Make a copy beside a checkpoint and remove it; return the seconds that it took, and its way."""
    to = checkpoint.target()
    files_of(to).make_private(to.parent)
    os.sync()
    read, began = checkpoint.read_by_jvm(), time.perf_counter()
    make(to)
    seconds = time.perf_counter() - began
    way = checkpoint.way(to, checkpoint.read_by_jvm() - read)
    files_of(to).remove(to.parent)
    return seconds, way


@contextmanager
def reaching() -> Iterator[SparkSession]:
    """Run a Spark whose JVM reaches all storages, with what every driver has for HDFS."""
    with session("clones", [spark_s3a(bundled_spark())], cores=1, conf=HDFS_DEFAULTS) as spark:
        reach(places.storage())
        try:
            yield spark
        finally:
            reach(None)


def measured(spark: SparkSession, kind: str, rounds: int) -> tuple[dict[str, list[float]], str]:
    """Return the seconds of both sides on one storage, and the way of the clones."""
    seconds: dict[str, list[float]] = {"clone": [], "plain": []}
    ways = set()
    with tempfile.TemporaryDirectory() as folder, open_storage(kind, Path(folder) / kind) as storage:
        for key, value in storage.core_site.items():
            spark.conf.set(key, value)
        checkpoint = Checkpoint(locate(f"{storage.url}/checkpoints/orders"), spark)
        checkpoint.fill(Path(folder))
        checkpoint.clone_logs()
        for number in range(rounds):
            taken, way = timed(checkpoint, checkpoint.clone)
            ways.add(way)
            seconds["clone"].append(taken)
            seconds["plain"].append(timed(checkpoint, checkpoint.plain)[0])
            latest = {side: round(found[-1], 2) for side, found in seconds.items()}
            print(f"{kind}, round {number + 1}: {latest}, {way}", flush=True)
    return seconds, ", ".join(sorted(ways))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    before = machine()
    sides: dict[str, Any] = {}
    ways: dict[str, str] = {}
    with reaching() as spark:
        for kind in (FILE, HDFS, S3PROXY):
            seconds, ways[kind] = measured(spark, kind, options.rounds)
            sides.update({f"{side}, {kind}": spread(found) for side, found in seconds.items()})
    report(sides, ways, before)
    return 0


def report(sides: Mapping[str, Any], ways: Mapping[str, str], before: Mapping[str, Any]) -> None:
    """Print and write what was found."""
    targets = {
        f"clone of 1 GiB on {kind}, max (s)": (sides[f"clone, {kind}"]["max"], "<=", WANTED_SECONDS)
        for kind in (FILE, S3PROXY)
    }
    show("clone of 1 GiB (s)", sides, targets)
    ratios = {kind: round(sides[f"plain, {kind}"]["p50"] / sides[f"clone, {kind}"]["p50"], 2) for kind in ways}
    for kind, way in ways.items():
        print(f"{kind}: {way}; the plain copy takes {ratios[kind]} times as long")
    write("storage_clone", {"sides": sides, "ways": ways, "plain_to_clone": ratios, "machine": before})


if __name__ == "__main__":
    sys.exit(main())
