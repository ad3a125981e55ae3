"""How many requests the runtime adds to those that Spark sends to the storage of its checkpoint.

    python -m benchmarks.storage_requests [--rounds 2]

One script with a batch of state a second, its checkpoint on HDFS or by S3A on moto: under plain spark-submit (`plain`),
and through the launcher, as the holder (`launcher`). Sides take turns; each has a driver and a checkpoint of its own.
`per batch` is from batch 10 to batch 70, `start` is all until batch 10. The control log is in a folder, so that nothing
of it is counted.

Servers count: the NameNode the calls of its clients, by method (those of its DataNode are left out), and moto writes a
line for each request.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.results import machine, show, show_counts, spread, write
from devstack.drivers import hand_run_stream, spark_submit, wait_for
from devstack.hdfs import Hdfs
from devstack.jars import fetch, spark_s3a
from devstack.processes import Processes
from devstack.s3 import BUCKET, moto
from devstack.spark import bundled_spark

APP = Path(__file__).with_name("requests_app.py")
FIRST, LAST = 10, 70
# What a DataNode asks of its NameNode, whoever writes.
OF_DATANODES = {"SendHeartbeat", "BlockReport", "BlockReceivedAndDeleted", "RegisterDatanode", "VersionRequest"}
# Werkzeug colours what did not succeed.
_REQUEST = re.compile(r'"(?:\x1b\[[\d;]*m)*(?P<method>[A-Z]+) (?P<target>\S+) HTTP/')

Run = Callable[[Path, Mapping[str, str], Sequence[str]], AbstractContextManager[None]]


@dataclass(frozen=True)
class Counted:
    """A storage that counts.

    :param url: below which checkpoints can be.
    :param conf: Spark's, for a driver that uses it.
    :param count: returns the requests since its start, by kind.
    :param late: how old that may be, in seconds.
    """

    url: str
    conf: Mapping[str, str]
    count: Callable[[], Counter[str]]
    late: float = 0.0

    def count_all(self) -> Counter[str]:
        """Return the requests until now, of a storage that is at rest."""
        time.sleep(self.late)
        return self.count()


@contextmanager
def hdfs(folder: Path) -> Iterator[Counted]:
    """Run an HDFS."""
    with contextlib.closing(Processes(folder / "logs")) as processes:
        running = Hdfs(folder / "hdfs", processes)
        running.start()
        # A NameNode publishes its counters every ten seconds.
        yield Counted(running.url, {}, partial(namenode_calls, running), 11.0)


def namenode_calls(running: Hdfs) -> Counter[str]:
    """Return how often each method of a NameNode was called by clients."""
    bean = f"Hadoop:service=NameNode,name=RpcDetailedActivityForPort{running.port}"
    with urllib.request.urlopen(f"{running.web_url}/jmx?qry={bean}", timeout=60) as page:
        (found,) = json.load(page)["beans"]
    calls = {key.removesuffix("NumOps"): count for key, count in found.items() if key.endswith("NumOps")}
    # It has each method once more, as Overall…: with the time in the queue.
    calls = {method: count for method, count in calls.items() if not method.startswith("Overall")}
    return Counter({method: count for method, count in calls.items() if method not in OF_DATANODES})


@contextmanager
def s3a(folder: Path) -> Iterator[Counted]:
    """Run moto."""
    with moto(folder) as server:
        assert server.process is not None
        conf = {f"spark.hadoop.{key}": value for key, value in server.core_site.items()}
        conf["spark.driver.extraClassPath"] = f"{fetch(spark_s3a(bundled_spark()))}/*"
        log = server.process.log
        yield Counted(f"s3a://{BUCKET}", conf, lambda: logged(log.read_text(errors="replace")))


def logged(log: str) -> Counter[str]:
    """Return the requests in moto's log, by kind."""
    return Counter(kind(each["method"], each["target"]) for each in _REQUEST.finditer(log))


def kind(method: str, target: str) -> str:
    """Return the kind of a request to S3.

    >>> kind("GET", "/streams?list-type=2&prefix=a"), kind("GET", "/streams/a")
    ('LIST', 'GET')
    """
    return "LIST" if method == "GET" and "list-type=" in target else method


@contextmanager
def plain(folder: Path, conf: Mapping[str, str], arguments: Sequence[str]) -> Iterator[None]:
    """Run the script as it is under spark-submit."""
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = spark_submit([*settings, str(APP), *arguments])
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command.words, env=command.environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def launched(folder: Path, conf: Mapping[str, str], arguments: Sequence[str]) -> Iterator[None]:
    """Run the same script through the launcher, appointed as holder."""
    with hand_run_stream(folder) as stream:
        stream.spark_conf = dict(conf)
        stream.deploy("requests-1", APP, *arguments)
        stream.hand_over(stream.standby("requests-1"))
        yield


SIDES: Mapping[str, Run] = {"plain": plain, "launcher": launched}


@dataclass(frozen=True)
class Requests:
    """What one run has sent: until the first batches, and in so many of the later ones."""

    start: Counter[str]
    later: Counter[str]
    batches: int

    @property
    def per_batch(self) -> float:
        """Requests of one batch."""
        return self.later.total() / self.batches


def sent(run: Run, storage: Counted, name: str) -> Requests:
    """Run the script with a new checkpoint of this name, and return what was sent."""
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"

        def reached(batch: int) -> tuple[int, Counter[str]]:
            wait_for(f"batch {batch}", lambda: last_batch(progress) >= batch)
            return last_batch(progress), storage.count()

        before = storage.count()
        with run(Path(folder), storage.conf, (f"{storage.url}/{name}", str(progress))):
            first, early = reached(FIRST)
            last, late = reached(LAST)
    return Requests(early - before, late - early, last - first)


def last_batch(progress: Path) -> int:
    """Return the last batch that a script has noted; -1: none."""
    lines = progress.read_text().split() if progress.exists() else []
    return int(lines[-1]) if lines else -1


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    before = machine()
    found: dict[str, dict[str, list[Requests]]] = {}
    for place, opened in {"hdfs": hdfs, "s3a": s3a}.items():
        found[place] = {side: [] for side in SIDES}
        with tempfile.TemporaryDirectory() as root, opened(Path(root)) as storage:
            for number in range(options.rounds):
                for side, run in SIDES.items():
                    one = sent(run, storage, f"{side}-{number}")
                    found[place][side].append(one)
                    print(f"{place}, round {number + 1}, {side}: {one.per_batch:.2f} requests per batch", flush=True)
    write("storage_requests", {**{place: report(place, sides) for place, sides in found.items()}, "machine": before})
    return 0


def report(place: str, found: Mapping[str, Sequence[Requests]]) -> dict[str, Any]:
    """Print what was found on one storage, and return it."""
    sides = {side: spread([one.per_batch for one in runs]) for side, runs in found.items()}
    kinds = {side: by_kind(runs) for side, runs in found.items()}
    start = {side: spread([one.start.total() for one in runs]) for side, runs in found.items()}
    show(f"requests per batch on {place}", sides, {})
    show_counts(f"requests per batch on {place}", kinds)
    show(f"requests until batch {FIRST} on {place}", start, {})
    added = round(sides["launcher"]["p50"] - sides["plain"]["p50"], 2)
    print(f"{place}: the runtime adds {added} requests per batch to {sides['plain']['p50']}")
    return {"per_batch": sides, "added_per_batch": added, "per_batch_by_kind": kinds, "start": start}


def by_kind(runs: Sequence[Requests]) -> dict[str, float]:
    """Return the requests of a batch by kind, over all runs of a side."""
    total = sum((one.later for one in runs), Counter[str]())
    batches = sum(one.batches for one in runs)
    return {kind: round(count / batches, 2) for kind, count in total.most_common()}


if __name__ == "__main__":
    sys.exit(main())
