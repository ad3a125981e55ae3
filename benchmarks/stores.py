"""What a control log costs in a folder and in a Kafka topic; and what a watch costs that looks at many topics.

    python -m benchmarks.stores [--rounds 200] [--topics 10 100 1000]

`append` is one record until it is acknowledged and read back; `notice` is the look of another reader that finds it;
`beat` is one heartbeat, which in a topic also reads all that was written before it. Both sides take turns in one run,
on one disk: the folder on this machine's, the topic on one broker of this machine, with one replica.

Then so many streams with their logs in topics; what a look of the watch at them is, `benchmarks.topic_looks` says.
Before each look their drivers renew their leases as drivers do, eight side by side, as often as this machine lets them,
through Airflow's client of Kafka and not a JVM's. What the broker uses for that gives its cores at two heartbeats a
second and stream. `look_cores` are those of the look's process at one look a minute, its
start included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from airflow_stream_provider.control import ControlLog, make_root, open_log
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic
from benchmarks import topic_looks
from benchmarks.open_log import life
from benchmarks.results import machine, show, spread, write
from benchmarks.topic_looks import BEAT, DRIVERS, HEAP
from devstack.kafka_cluster import KafkaCluster

PERIOD = 60.0
LOOKS = 3
REST_SECONDS = 10.0
# Of a holder, and of a standby beside it.
BEATS_PER_SECOND = 2


def taken(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def alternating(logs: Mapping[str, tuple[ControlLog, ControlLog]], rounds: int) -> dict[str, dict[str, Any]]:
    """Let both sides append, notice and beat in turns, and return what each took.

    :param logs: by side, the log of a writer and that of another reader.
    """
    found: dict[str, list[float]] = {f"{what}, {side}": [] for what in ("append", "notice", "beat") for side in logs}
    for number, record in enumerate(islice(life(), rounds)):
        for side, (log, reader) in logs.items():
            seq = log.refresh().seq
            found[f"append, {side}"].append(taken(partial(log.append, record, seq)))
            found[f"notice, {side}"].append(taken(reader.refresh))
            if reader.state.seq != seq + 1:
                raise SystemExit(f"the reader of {side} did not find record {seq + 1}")
            beat = replace(BEAT, counter=number)
            found[f"beat, {side}"].append(taken(partial(log.beat, DRIVERS[0], beat)))
    return {side: spread(seconds) for side, seconds in found.items()}


def _same(client: KafkaClient) -> KafkaClient:
    return client


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory() as root, KafkaCluster(Path(root) / "kafka", heap=HEAP) as kafka:
        folder = Path(root) / "files"
        make_root(folder.as_uri())
        with kafka.client() as client, kafka.client() as other:
            topic_setup.create(client, "streams.orders")
            open_log(folder.as_uri(), "orders", create=True)
            topics = [
                ControlLog(TopicStore(KafkaTopic(partial(_same, each), "here", "streams.orders"), "orders"), "orders")
                for each in (client, other)
            ]
            logs = {
                "file": (open_log(folder.as_uri(), "orders"), open_log(folder.as_uri(), "orders")),
                "kafka": (topics[0], topics[1]),
            }
            sides = alternating(logs, options.rounds)
            ratios = {
                what: round(sides[f"{what}, kafka"]["p50"] / sides[f"{what}, file"]["p50"], 2)
                for what in ("append", "notice", "beat")
            }
            show("one control log (s)", sides, {})
            print(f"kafka is so many times the file's p50: {ratios}", flush=True)
        many = looks(kafka, sorted(options.topics))
    write("stores", {"sides": sides, "kafka_to_file": ratios, "topics": many, "machine": before})
    return 0


def looks(kafka: KafkaCluster, sizes: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Look at ever more streams, and return by their number what one look costs, and what their heartbeats cost."""
    broker = psutil.Process(kafka.pid(1))

    def broker_cpu() -> float:
        used = broker.cpu_times()
        return float(used.user + used.system)

    found: dict[int, dict[str, Any]] = {}
    logs: list[ControlLog] = []
    with topic_looks.control_root(kafka) as root:
        for count in sizes:
            logs += topic_looks.make_streams(kafka, root, len(logs), count)
            # While the others were made, those that were there before have been silent.
            topic_looks.beat(logs, 1)
            topic_looks.look(kafka, count)
            used = broker_cpu()
            time.sleep(REST_SECONDS)
            rest = (broker_cpu() - used) / REST_SECONDS
            costs, seconds, beats_cpu = [], [], 0.0
            for _ in range(LOOKS):
                used = broker_cpu()
                seconds += topic_looks.beat(logs)
                beats_cpu += broker_cpu() - used
                costs.append(topic_looks.look(kafka, count))
            each_beat = beats_cpu / len(seconds)
            cores = [(cost["start"] + cost["look"]) / PERIOD for cost in costs]
            found[count] = {
                "look_seconds": spread([cost["seconds"] for cost in costs]),
                "look_cpu_seconds": spread([cost["look"] for cost in costs]),
                "start_cpu_seconds": spread([cost["start"] for cost in costs]),
                "look_cores": round(median(cores), 3),
                "look_bytes_per_stream": round(costs[-1]["bytes"] / count),
                "look_bytes_per_second": round(costs[-1]["bytes"] / PERIOD),
                "look_broker_cpu_seconds": round(median([cost["broker"] for cost in costs]), 3),
                "beat_seconds": {key: each for key, each in spread(seconds).items() if key != "values"},
                "beat_broker_cpu_milliseconds": round(1000 * each_beat, 3),
                "beats_broker_cores": round(each_beat * BEATS_PER_SECOND * count, 3),
                "broker_cores_at_rest": round(rest, 3),
            }
            print(count, found[count], flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
