"""The gap of an upgrade: stop then submit against hand-over against roll-back, on a real cluster.

    python -m benchmarks.upgrade_gap [--rounds 5] [--keys 0 500000 2000000] [--control kafka] [--storage hdfs]
    python -m benchmarks.upgrade_gap --cluster yarn

500 records/s, two queries, trigger 1 s, the holder warm for 20 s before each side; sides alternate. A gap is the
largest time between two commits of one query around the change; the slower query counts. `crossing` is the last
commit of the old holder to the first of the new one. With --keys the hand-over is measured again on that many keys
of state. The cluster is Spark's own, control log and files are in folders, unless --cluster, --control and --storage
name others; the numbers are then in build/bench/upgrade_gap_CONTROL_STORAGE.json, or upgrade_gap_yarn.json for YARN,
where the log is in Kafka and files are on HDFS by default. build/bench/gap_picture.json has the last hand-over and the
last restart, second by second: benchmarks.gap_picture draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lifecycle.state import StreamPhase
from benchmarks.change import change
from benchmarks.gap_picture import around
from benchmarks.results import machine, show, spread, write
from devstack.audit import read_topic
from devstack.commits import intervals, largest_gap
from devstack.drivers import wait_for
from devstack.places import CONTROL_URL, FILE, HDFS, KAFKA, Pair, open_storage
from devstack.stack import LocalStack
from devstack.stack_stream import QUERIES, StackStream, stack_stream

RATE = 500
WARM_SECONDS = 20.0
# State lives in the executor: two versions of millions of keys.
LARGE = {"spark.executor.memory": "2g"}
YARN = "yarn"


class Gaps:
    """One stream, changed again and again, and what each change cost."""

    def __init__(self, stream: StackStream, conf: Mapping[str, str] | None = None) -> None:
        self.stream = stream
        self._conf = conf
        self.sides: dict[str, list[float]] = {
            name: []
            for name in (
                "restart",
                "handover",
                "rollback",
                "crossing",
                "steady",
                "preparing",
                "release_to_start",
                "submit_to_ready",
            )
        }
        self.cpu: list[dict[str, float]] = []
        self.asked: dict[str, float] = {}  # when the last one of a side was asked for, in seconds since 1970
        self._number = 0

    def first(self) -> None:
        """Deploy the first holder."""
        change(self.stream, self._submit(rehearse_batches=0))
        self._warm()

    def round(self) -> None:
        """Hand over, roll back, restart."""
        old = str(self.stream.state.holder)
        began = time.time()
        new = self._submit()
        self._spaces("preparing", began)
        self._take("handover", new)
        self.cpu.append({name: self._cpu(incarnation) for name, incarnation in (("new", new), ("old", old))})
        self._warm()
        self._take("rollback", old)
        self._warm()
        self._restart()
        self._warm()

    def hand_over_only(self) -> float:
        """Deploy a standby, hand over to it, retire the old one; return the gap."""
        old = str(self.stream.state.holder)
        self._take("handover", self._submit())
        self._warm()
        self.stream.append("retired", deployment=old.rpartition(".")[0], reason="benchmark")
        return self.sides["handover"][-1]

    def picture(self) -> dict[str, Any]:
        """Return the last hand-over, with the start of its driver, and the last restart, for `gap_picture`."""
        brokers, stream = self.stream.stack.bootstrap_servers, self.stream.stream
        produced, written = (sorted(r.at for r in read_topic(brokers, f"{stream}-{part}")) for part in ("in", "out"))
        shown = {}
        for side, before, at_least in (("handover", 40, 20), ("restart", 15, 45)):
            gap = self.sides[side][-1]
            seen = around(self.asked[side], -before, max(at_least, gap + 15), produced, written)
            shown[side] = {"gap_seconds": round(gap, 2), **seen}
        return shown

    def _submit(self, **policy: Any) -> str:
        self._number += 1
        name = f"bench-{self._number}"
        began = time.time()
        self.stream.submit(name, "--max-offsets", "1000000", conf=self._conf, **policy)
        standby = self.stream.standby(name)
        if not policy:  # as rehearsed as an upgrade's
            self.sides["submit_to_ready"].append(time.time() - began)
        return standby

    def _warm(self) -> None:
        """Let the holder run for a while; its own steady state is what the next change is held against."""
        self.stream.settle()
        began = time.time()
        time.sleep(WARM_SECONDS)
        self._spaces("steady", began)

    def _spaces(self, side: str, since: float) -> None:
        self.stream.watcher.look()
        for query in QUERIES:
            self.sides[side] += intervals(self.stream.watcher.commits[query], since, time.time())

    def _take(self, side: str, to: str) -> None:
        made = change(self.stream, to)
        self.sides["release_to_start"].append(made.release_to_start)
        self.sides["crossing"].append(max(made.crossing.values()))
        self.asked[side] = made.began
        self._gap(side, made.began, made.acquired_at + 5)

    def _gap(self, side: str, since: float, until: float) -> None:
        commits = self.stream.watcher.commits
        self.sides[side].append(max(largest_gap(commits[q], since, until) or 0.0 for q in QUERIES))

    def _restart(self) -> None:
        """What everybody does today: stop, then submit; nothing is rehearsed."""
        self.asked["restart"] = began = time.time()
        self.stream.request(None)
        wait_for("the stop", lambda: self.stream.state.phase is StreamPhase.STOPPED)
        for deployment in [d.id for d in self.stream.state.deployments.values() if not d.ended]:
            self.stream.append("retired", deployment=deployment, reason="benchmark")
        change(self.stream, self._submit(rehearse_batches=0))
        self._gap("restart", began, time.time())

    def _cpu(self, incarnation: str) -> float:
        """CPU seconds that a driver's processes have used so far."""
        found = 0.0
        for process in self.stream.processes(incarnation):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            found += times.user + times.system
        return round(found, 1)


def with_state(folder: Path, stack: LocalStack, keys: int, places: Mapping[str, Any]) -> dict[str, Any]:
    """Measure hand-overs of a stream whose aggregation already has this many keys.

    :param places: where its control log and its files are; see `StackStream`.
    """
    with stack_stream(folder, stack, f"keys-{keys}", rate=RATE, **places) as opened:
        _preload(stack, f"{opened.stream}-in", keys)
        gaps = Gaps(opened, LARGE)
        gaps.first()
        for _ in range(3):
            gaps.hand_over_only()
        return {side: spread(gaps.sides[side]) for side in ("handover", "crossing", "steady", "submit_to_ready")}


def _preload(stack: LocalStack, topic: str, keys: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=stack.bootstrap_servers, linger_ms=50, batch_size=1 << 18)
    for number in range(keys):
        producer.send(topic, value=b'{"id":-1,"customer":"preloaded-%d","country":"AT","cents":1}' % number)
    producer.flush()
    producer.close()


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, nargs="*", default=[0, 500_000, 2_000_000])
    parser.add_argument("--cluster", choices=("standalone", YARN), default="standalone")
    parser.add_argument("--control", choices=(FILE, KAFKA))
    parser.add_argument("--storage", choices=(FILE, HDFS, "s3proxy"))
    options = parser.parse_args()
    usual = Pair(KAFKA, HDFS) if options.cluster == YARN else Pair()
    pair = Pair(options.control or usual.control, options.storage or usual.storage)
    name = YARN if options.cluster == YARN else "" if pair == Pair() else f"{pair.control}_{pair.storage}"
    before = machine()
    with (
        tempfile.TemporaryDirectory() as root,
        open_storage(pair.storage, Path(root) / "storage") as storage,
        LocalStack(
            Path(root) / "stack",
            yarn=options.cluster == YARN,
            worker_memory="10g",
            libraries=storage.libraries,
            core_site=storage.core_site,
        ) as stack,
    ):
        os.environ.update({"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(stack.broker.connection), **storage.variables})
        places = {"control": control_root(CONTROL_URL) if pair.control == KAFKA else None, "storage": storage}
        with stack_stream(Path(root) / "main", stack, "gap", rate=RATE, **places) as opened:
            gaps = Gaps(opened)
            gaps.first()
            for number in range(options.rounds):
                gaps.round()
                latest = {side: round(gaps.sides[side][-1], 2) for side in ("restart", "handover", "rollback")}
                print(f"round {number + 1}: {latest}", flush=True)
            records = opened.audit()
        by_keys: dict[int, dict[str, Any]] = {}
        _report(name, gaps, by_keys, before, asdict(records))
        machine_of = {each: before[each] for each in ("cores", "memory_gib", "spark")}
        write("gap_picture", {**gaps.picture(), "machine": machine_of})
        for keys in options.keys:
            by_keys[keys] = with_state(Path(root) / str(keys), stack, keys, places)
            show(f"hand-over with {keys} keys of state (s)", by_keys[keys], {})
            _report(name, gaps, by_keys, before, asdict(records))
    return 0


def _report(
    name: str, gaps: Gaps, by_keys: dict[int, dict[str, Any]], before: dict[str, Any], records: dict[str, int]
) -> None:
    sides = {side: spread(values) for side, values in gaps.sides.items() if values}
    steady, preparing = sides["steady"], sides["preparing"]
    changes = [*gaps.sides["handover"], *gaps.sides["rollback"]]
    verdicts: dict[str, tuple[float, str, float]] = {
        "release_to_start max (s)": (sides["release_to_start"]["max"], "<=", 0.1),
        "crossing p50 / steady p50": (sides["crossing"]["p50"] / steady["p50"], "<=", 1.0),
        "hand-over, roll-back max / steady p50": (max(changes) / steady["p50"], "<=", 2.5),
        "restart p50 / hand-over p50": (sides["restart"]["p50"] / sides["handover"]["p50"], ">=", 10),
        "preparing p95 / steady p50": (preparing["p95"] / steady["p50"], "<=", 2.5),
    }
    for side in ("handover", "rollback"):
        verdicts[f"{side} p50 / steady p50"] = (sides[side]["p50"] / steady["p50"], "<=", 1.5)
    show(f"gaps of an upgrade {name} (s)", sides, verdicts)
    body = {
        **{side: sides[side] for side in ("restart", "handover", "rollback", "crossing", "release_to_start")},
        "steady_p50": steady["p50"],
        "steady_p95": steady["p95"],
        "preparing_p95": preparing["p95"],
        "submit_to_ready": sides["submit_to_ready"],
        "cpu_seconds": gaps.cpu,
        "by_keys": by_keys,
        "records": records,
        "machine": before,
    }
    write("_".join(filter(None, ("upgrade_gap", name))), body)


if __name__ == "__main__":
    sys.exit(main())
