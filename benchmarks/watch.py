"""What one watch for all streams of a folder costs, by the number of streams.

    python -m benchmarks.watch [--rounds 5] [--streams 10 100 1000]

The streams are on disk as their drivers leave them (`devstack.many_streams`): control logs with the records of five
upgrades, heartbeats, checkpoints. Another process moves them meanwhile: all drivers beat once a second, and half of the
streams commit a batch every ten seconds. One real broker has a topic for each of them.

A look is a fresh process, as a task is one: `start` is the CPU time until it has imported what a task of Airflow and
the watch import; `look` is the look itself. `cores` counts both, at one look a minute. The first look of a stream, that
finds no sample, is not measured. The cluster is a local one: that of Spark would be asked one question more.

`parse` is what a DAG processor takes for the folder's DAGs, and `task` what the start of one task does: both over
Airflow's own import, in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_stream_provider.control.files_root import SampleFile
from benchmarks.fresh import run
from benchmarks.results import machine, show, spread, write
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.many_streams import BATCHES, PARTITIONS, StoredStream, make_streams

ROOT = Path(__file__).parents[1]
LOOK_SECONDS = 15.0
CORES = 0.5
PERIOD = 60.0
HEAP = "1g"
SECOND_BEAT = 3


@contextmanager
def moving(folder: Path, servers: str, count: int) -> Iterator[None]:
    """Let a process of its own move the streams, half of them with batches."""
    command = [sys.executable, "-m", "devstack.many_streams", str(folder), servers, str(count), str(count // 2)]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    last = StoredStream(folder, f"s{count - 1:04d}", servers)

    def beats() -> bool:
        # A look that comes before a driver's second beat takes it for dead.
        beat = last.log.heartbeat(last.holder)
        return beat is not None and beat.counter > SECOND_BEAT

    try:
        wait_for("the last stream to beat", beats)
        yield
        if process.poll() is not None:
            raise SystemExit("the streams have stopped moving")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write_yaml(folder: Path, streams: Sequence[StoredStream]) -> Path:
    """Write the streams' YAML, and return the folder."""
    found = folder / "dags" / "streams"
    found.mkdir(parents=True, exist_ok=True)
    for stream in streams:
        (found / f"{stream.name}.yaml").write_text(stream.yaml("spark_here", "kafka_here"))
    return found


def looks(yaml: Path, count: int, rounds: int, connections: Mapping[str, str]) -> list[dict[str, Any]]:
    """Look at so many streams, and return what each look but the first cost; every one must find all lags."""
    found = [run("watch_look", yaml, count, **connections) for _ in range(rounds + 1)]
    for look in found:
        summary = look["summary"]
        if summary["looked"] != count or summary["unanswered"] or summary["incidents"] or look["revive"]:
            raise SystemExit(f"a look at {count} streams found what is not there: {look}")
    return found[1:]


def measured(folder: Path, count: int) -> None:
    """Check that the last look knew the lag of every query."""
    from airflow_stream_provider.monitoring.samples import last

    for number in range(count):
        sample = last(SampleFile(folder_of(StoredStream(folder, f"s{number:04d}", "").log)))
        if sample is None or len(sample.queries) != 2 or any(q.records is None for q in sample.queries.values()):
            raise SystemExit(f"the lag of s{number:04d} was not measured: {sample}")


def parsing(yaml: Path, count: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds that the folder's DAGs take, and those for the start of one task."""
    with tempfile.TemporaryDirectory() as scratch:
        streams = Path(scratch) / "dags" / "streams"
        streams.mkdir(parents=True)
        for path in sorted(yaml.glob("*.yaml"))[:count]:
            (streams / path.name).symlink_to(path)
        one = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": "s0000__upgrade", "_AIRFLOW_PARSING_CONTEXT_TASK_ID": "check"}
        parse = [run("parse", streams) for _ in range(rounds)]
        task = [run("parse", streams, **one) for _ in range(rounds)]
    if parse[0][-1] < count:
        raise SystemExit(f"only {parse[0][-1]} DAGs came out of {count} streams")
    return [seconds for _, seconds, *_ in parse], [seconds for _, seconds, *_ in task]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    before = machine()
    sizes = sorted(options.streams)
    most = sizes[-1]
    sides: dict[str, dict[str, Any]] = {}
    cost: dict[str, dict[int, Any]] = {key: {} for key in ("start", "read", "look", "cores", "memory")}
    with tempfile.TemporaryDirectory() as root, KafkaCluster(Path(root) / "kafka", heap=HEAP) as kafka:
        folder = Path(root)
        with kafka.client() as client:
            for first in range(0, most, 100):
                names = range(first, min(first + 100, most))
                create_topics(client, {f"s{number:04d}": PARTITIONS for number in names})
        streams = make_streams(folder, kafka.servers, most)
        yaml = write_yaml(folder, streams)
        fill(kafka, most)
        print(f"{most} streams are there", flush=True)
        connections = {
            "AIRFLOW_CONN_KAFKA_HERE": json.dumps({"conn_type": "kafka", "extra": kafka.extra}),
            "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        with moving(folder, kafka.servers, most):
            for count in sizes:
                found = looks(yaml, count, options.rounds, connections)
                measured(folder, count)
                sides[f"look at {count}"] = spread([look["seconds"] for look in found])
                for key in ("start", "read", "look"):
                    cost[key][count] = spread([look[key] for look in found])["p50"]
                cost["cores"][count] = round(sum(cost[key][count] for key in ("start", "read", "look")) / PERIOD, 3)
                cost["memory"][count] = found[-1]["memory"]
                print(f"{count}: {sides[f'look at {count}']['values']} s, {cost['cores'][count]} cores", flush=True)
        for count in sizes:
            parse, task = parsing(yaml, count, options.rounds)
            sides[f"parse {count}"], sides[f"task of {count}"] = spread(parse), spread(task)
    report(sizes, sides, cost, before)
    return 0


def fill(kafka: KafkaCluster, count: int) -> None:
    """Send each topic the records that its stream's checkpoints have read, and three more to those that move.

    Nobody would ever read those of a stream that rests, and people would be told of it.
    """
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=kafka.servers, linger_ms=50)
    for number in range(count):
        unread = 3 if number < count // 2 else 0
        for record in range((BATCHES - 1 + unread) * PARTITIONS):
            producer.send(f"s{number:04d}", b"an order", partition=record % PARTITIONS)
    producer.close()


def report(
    sizes: list[int], sides: dict[str, dict[str, Any]], cost: dict[str, dict[int, Any]], before: dict[str, Any]
) -> None:
    """Print and write what was found."""
    most = sizes[-1]
    look = {count: sides[f"look at {count}"]["p50"] for count in sizes}
    task = {count: sides[f"task of {count}"]["p50"] for count in sizes}
    verdicts: dict[str, tuple[float, str, float]] = {
        f"look at {most}, max (s)": (sides[f"look at {most}"]["max"], "<=", LOOK_SECONDS),
        f"cores at {most}, one look a minute": (cost["cores"][most], "<=", CORES),
    }
    if len(sizes) > 1:
        small = sizes[-2]
        # What a stream more costs must not grow: a quarter is left to what the machine does besides.
        verdicts[f"look at {most} / look at {small}, by stream"] = (
            look[most] / most / (look[small] / small),
            "<=",
            1.25,
        )
        verdicts[f"task of {most} - task of {sizes[0]} (s)"] = (task[most] - task[sizes[0]], "<=", 0.1)
    show("one watch for all streams (s)", sides, verdicts)
    print("CPU seconds (start of the process, reading the YAML, look):")
    for count in sizes:
        print(f"  {count}: {cost['start'][count]}, {cost['read'][count]}, {cost['look'][count]}")
    body = {
        "look_seconds": look,
        "cores": cost["cores"],
        "parse_seconds": {count: sides[f"parse {count}"]["p50"] for count in sizes},
        "task_seconds": task,
        "cpu_seconds": {key: cost[key] for key in ("start", "read", "look")},
        "memory_bytes": cost["memory"],
        "sides": sides,
        "machine": before,
    }
    write("watch", body)


if __name__ == "__main__":
    sys.exit(main())
