"""Measure the cost of a lag report: against Kafka's own tool, by number of partitions, and by number of sensors.

    python -m benchmarks.lag [--rounds 7] [--partitions 100 1000 10000 15000] [--over-two 30000] [--sensors 500]

Every partition holds three records of which the group has committed one. So a report must look up the age of each
record, which the tool does not do. `report` is what a sensor asks for, over an open connection; `cold` connects first;
`tool` is `kafka-consumer-groups.sh --describe` of the same group (its JVM starts each time, as in a shell).
`report, level` and `tool, level` measure another group that has committed everything. The sides take turns.

The sensors are triggers in one event loop, each with a consumer group of its own. All groups have committed the same
offsets, or (`apart`) each one another offset of the same topic, which takes the most requests. A watchdog like that of
Airflow's triggerer runs beside them: a loop that sleeps 0.1 s and measures how late it wakes up.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.net.manager import KafkaConnectionManager

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.committed_offsets import group_committed
from airflow_stream_provider.lag.limits import LagLimits, Moments
from airflow_stream_provider.lag.measure import measure_each
from airflow_stream_provider.lag.report import QueryLag
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.planning.lag_conditions import WithinLimits
from airflow_stream_provider.triggers.lag import LagTrigger
from benchmarks.results import machine, show, spread, write
from devstack.jars import fetch, kafka_broker
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_tools import kafka_tools
from devstack.kafka_writes import commit_group, create_topics
from devstack.processes import java

# Partitions of each topic that the benchmark makes.
PER_TOPIC = 250
RECORDS = 3
TOOL_SIZE = 10_000
# Seconds between two polls of the sensors, and the number of polls that are measured; one before opens the connection.
INTERVAL = 5.0
POLLS = 6
SENSOR_PARTITIONS = 10
HEAP = "2g"


@contextmanager
def brokers(count: int) -> Iterator[tuple[KafkaCluster, KafkaClient]]:
    """Start this many brokers, with heap for thousands of partitions."""
    with (
        tempfile.TemporaryDirectory() as root,
        KafkaCluster(Path(root), count, heap=HEAP) as kafka,
        kafka.client() as client,
    ):
        yield kafka, client


def topics_of(size: int) -> dict[str, int]:
    """Return topics with this many partitions together: their names and numbers of partitions."""
    full = {f"full-{number}": PER_TOPIC for number in range(size // PER_TOPIC)}
    return full | ({f"part-{size}": size % PER_TOPIC} if size % PER_TOPIC else {})


def fill(kafka: KafkaCluster, client: KafkaClient, sizes: list[int]) -> None:
    """Make the topics, their records, and two groups for each size."""
    topics = {name: count for size in sizes for name, count in topics_of(size).items()}
    for name, count in topics.items():
        create_topics(client, {name: count})
    producer = KafkaProducer(bootstrap_servers=kafka.servers, linger_ms=20)
    for name, count in topics.items():
        for record in range(RECORDS * count):
            producer.send(name, b"x", partition=record % count)
        producer.flush()
    producer.close()
    for size in sizes:
        for name, count in topics_of(size).items():
            for group, offset in ((group_of(size), 1), (level_of(size), RECORDS)):
                commit_group(client, group, {TopicPartition(name, number): offset for number in range(count)})


def group_of(size: int) -> str:
    """Return the group that has committed one record in each of this many partitions."""
    return f"group-{size}"


def level_of(size: int) -> str:
    """Return the group that has committed all records of this many partitions."""
    return f"level-{size}"


class Reports:
    """Times the sides, and checks that they find the same lag."""

    def __init__(self, kafka: KafkaCluster, client: KafkaClient) -> None:
        self.kafka = kafka
        self.client = client
        self.seconds: dict[str, list[float]] = {}
        jars = f"{fetch(kafka_broker())}/*:{fetch(kafka_tools())}/*"
        self._tool = [java(), "-Xmx256M", "-cp", jars, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]

    def round(self, size: int) -> None:
        """Time each side once."""
        behind, level = group_of(size), level_of(size)
        for side, find, group in (
            ("report", self._report, behind),
            ("cold", self._cold, behind),
            ("tool", self._tool_lag, behind),
            ("report, level", self._report, level),
            ("tool, level", self._tool_lag, level),
        ):
            began = time.perf_counter()
            lag = find(group)
            self.seconds.setdefault(side, []).append(time.perf_counter() - began)
            expected = 0 if group == level else size * (RECORDS - 1)
            if lag != expected:
                raise SystemExit(f"{side} finds a lag of {lag} records, not {expected}.")

    def _report(self, group: str) -> int | None:
        return report(self.client, group).records

    def _cold(self, group: str) -> int | None:
        with self.kafka.client() as client:
            return report(client, group).records

    def _tool_lag(self, group: str) -> int:
        command = [*self._tool, "--bootstrap-server", self.kafka.servers, "--describe", "--group", group]
        done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith(group)]
        return sum(int(row[5]) for row in rows)


def report(client: KafkaClient, group: str) -> QueryLag:
    """Measure a group once; raise unless everything is known."""
    committed = [group_committed(group, client.groups_offsets([group]))]
    (found,) = measure_each(client, {None: committed}, {None: Moments()})[None].queries
    if not found.complete or found.seconds is None:
        raise SystemExit(f"The lag of {group} is unknown: {found.problem}")
    return found


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Count the requests that all clients of this process send."""
    original = KafkaConnectionManager.send
    sent = 0

    def send(manager: Any, *args: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        return original(manager, *args, **options)

    KafkaConnectionManager.send = send
    try:
        yield lambda: sent
    finally:
        KafkaConnectionManager.send = original


def cost(client: KafkaClient, size: int, rounds: int) -> dict[str, Any]:
    """Return the seconds and the number of requests of a report of this many partitions."""
    report(client, group_of(size))
    seconds = []
    with counted() as sent:
        for _ in range(rounds):
            began = time.perf_counter()
            report(client, group_of(size))
            seconds.append(time.perf_counter() - began)
        requests = sent() / rounds
    return {**spread(seconds), "requests": requests}


def sensed(kafka: KafkaCluster, client: KafkaClient, count: int) -> None:
    """Make the topic of the sensors: in each partition one record for every ten seconds of the last hours."""
    create_topics(client, {"sensed": SENSOR_PARTITIONS})
    producer = KafkaProducer(bootstrap_servers=kafka.servers, linger_ms=20)
    now = round(time.time() * 1000)
    for record, partition in itertools.product(range(count), range(SENSOR_PARTITIONS)):
        producer.send("sensed", b"x", partition=partition, timestamp_ms=now - (count - record) * 10_000)
    producer.close()


def sensors(kafka: KafkaCluster, client: KafkaClient, count: int, apart: bool = False) -> dict[str, Any]:
    """Return the cost of this many triggers in one event loop: requests per poll, CPU, and how long it was blocked.

    :param apart: each group has committed another offset.
    """
    partitions = [TopicPartition("sensed", number) for number in range(SENSOR_PARTITIONS)]
    for number in range(count):
        commit_group(client, f"sensed-{number}", dict.fromkeys(partitions, number if apart else 0))
    os.environ["AIRFLOW_CONN_BENCH"] = json.dumps({"conn_type": "kafka", "extra": kafka.extra})
    return asyncio.run(_sensors(count))


async def _sensors(count: int) -> dict[str, Any]:
    # No sensor ever ends: the lag is never within its limits, nor beyond them for long enough.
    condition = WithinLimits(LagLimits(max_records=0).to_json(), seconds=1e9).to_json()
    triggers = [
        LagTrigger(LagTarget("bench", group=f"sensed-{number}").to_json(), condition, INTERVAL, time.time() + 3600)
        for number in range(count)
    ]
    late: list[float] = []

    async def watchdog() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.1)
            late.append(time.perf_counter() - began - 0.1)

    async def run(trigger: LagTrigger) -> None:
        async for event in trigger.run():
            raise SystemExit(f"A sensor has ended: {event.payload}")

    tasks = [asyncio.create_task(run(trigger)) for trigger in triggers]
    await asyncio.sleep(2 * INTERVAL - time.time() % INTERVAL + INTERVAL / 2)
    tasks.append(asyncio.create_task(watchdog()))
    with counted() as sent:
        cpu, began = time.process_time(), time.perf_counter()
        totals = [0]
        for _ in range(POLLS):
            await asyncio.sleep(INTERVAL)
            totals.append(sent())
        used, lasted = time.process_time() - cpu, time.perf_counter() - began
    ended = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if ended:
        raise SystemExit(f"{len(ended)} sensors have ended: {ended[0]}")
    return {
        "sensors": count,
        # The median: now and then kafka-python refreshes its metadata, which does not belong to a poll.
        "requests_per_poll": statistics.median(later - earlier for earlier, later in itertools.pairwise(totals)),
        "cores": used / lasted,
        "blocked_max": max(late),
        "blocked": spread(late) | {"values": []},
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--partitions", type=int, nargs="*", default=[100, 1_000, 10_000, 15_000])
    parser.add_argument("--over-two", type=int, default=30_000, help="partitions over two brokers; 0: leave it out")
    parser.add_argument("--sensors", type=int, default=500)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    before = machine()
    sizes = sorted(options.partitions)
    compared = max(size for size in sizes if size <= TOOL_SIZE)
    with brokers(1) as (kafka, client):
        fill(kafka, client, sizes)
        print(f"{sum(len(t['partitions']) for t in client.topics().values())} partitions are there", flush=True)
        by_size = {size: cost(client, size, options.rounds) for size in sizes}
        reports = Reports(kafka, client)
        for number in range(options.rounds):
            reports.round(compared)
            print(f"round {number + 1}: { {k: round(v[-1], 3) for k, v in reports.seconds.items()} }", flush=True)
        sensed(kafka, client, options.sensors)
        by_sensors = {count: sensors(kafka, client, count) for count in (1, options.sensors)}
        apart = sensors(kafka, client, options.sensors, apart=True)
    over_two = None
    if options.over_two:
        with brokers(2) as (kafka, client):
            fill(kafka, client, [options.over_two])
            over_two = cost(client, options.over_two, options.rounds)
    _report(reports, compared, by_size, over_two, options.over_two, by_sensors, apart, before)
    return 0


def _report(
    reports: Reports,
    compared: int,
    by_size: dict[int, dict[str, Any]],
    over_two: dict[str, Any] | None,
    over_two_size: int,
    by_sensors: dict[int, dict[str, Any]],
    apart: dict[str, Any],
    before: dict[str, Any],
) -> None:
    sides = {side: spread(values) for side, values in reports.seconds.items()}
    report_p50, tool_p50 = sides["report"]["p50"], sides["tool"]["p50"]
    show(
        f"lag of {compared} partitions (s)",
        sides,
        {
            "report p50 (s)": (report_p50, "<=", 1.0),
            "tool p50 / report p50": (tool_p50 / report_p50, ">=", 5.0),
            "tool p50 / cold p50": (tool_p50 / sides["cold"]["p50"], ">=", 5.0),
            "tool p50 / report p50, level": (sides["tool, level"]["p50"] / sides["report, level"]["p50"], ">=", 5.0),
        },
    )
    line = {f"{size} on one broker": found for size, found in by_size.items()}
    if over_two is not None:
        line[f"{over_two_size} over two"] = over_two
    # From one size to the next: the cost of one more partition must not grow with their number.
    slopes = _slopes({size: found["p50"] for size, found in by_size.items()})
    targets: dict[str, tuple[float, str, float]] = {}
    if len(slopes) > 1:
        targets["slope of the last step / of the others"] = (slopes[-1] / statistics.mean(slopes[:-1]), "<=", 1.5)
    if over_two is not None:
        largest = max(by_size)
        per_partition = (over_two["p50"] / over_two_size) / (by_size[largest]["p50"] / largest)
        targets["cost of a partition over two brokers / on one"] = (per_partition, "<=", 1.5)
    show("by partitions (s)", line, targets)
    one, many = by_sensors[1], by_sensors[max(by_sensors)]
    show(
        f"{many['sensors']} sensors, the event loop's delay (s)",
        {f"{count} sensors": found["blocked"] for count, found in by_sensors.items()} | {"apart": apart["blocked"]},
        {
            "requests per poll / one sensor's": (many["requests_per_poll"] / one["requests_per_poll"], "<=", 1.0),
            "loop blocked at most (s)": (many["blocked_max"], "<=", 0.2),
            "cores": (many["cores"], "<=", 0.25),
            "requests per poll / one sensor's, apart": (
                apart["requests_per_poll"] / one["requests_per_poll"],
                "<=",
                1.0,
            ),
            "loop blocked at most (s), apart": (apart["blocked_max"], "<=", 0.2),
            "cores, apart": (apart["cores"], "<=", 0.25),
        },
    )
    body = {
        "partitions": compared,
        **sides,
        "by_partitions": by_size,
        "over_two_brokers": {over_two_size: over_two},
        "by_sensors": by_sensors,
        "sensors_apart": apart,
        "poll_seconds": INTERVAL,
        "machine": before,
    }
    write("lag", body)


def _slopes(seconds: dict[int, float]) -> list[float]:
    sizes = sorted(seconds)
    return [(seconds[b] - seconds[a]) / (b - a) for a, b in itertools.pairwise(sizes)]


if __name__ == "__main__":
    sys.exit(main())
