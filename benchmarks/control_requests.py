"""How many requests a control log in Kafka costs: of a holder, of a standby, and of one look of Airflow's watch.

    python -m benchmarks.control_requests [--streams 10 100 1000]

The broker counts, by kind, what it answers (JMX, RequestsPerSec); what it asks its own controller is left out.

The drivers are real: a holder with a batch a second, alone for a minute; then with a standby beside it, also for a
minute. The checkpoint is in a folder, and the source is not Kafka: all requests are those of the control log.

The streams of a look have the log of four deployments, its saved state, and heartbeats of two drivers. A look is a
fresh process, as a task is one, and not the first: each stream has a sample, and eight heartbeats since. No lag is
measured; for that other requests are sent. Nobody beats meanwhile, so that all heartbeats count as fresh; and nothing
has a deadline, because requests are counted and not seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from kafka import KafkaProducer

from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.kafka.control_root import TopicRoot
from benchmarks.results import machine, show_counts, write
from benchmarks.storage_requests import APP, last_batch
from benchmarks.stores import BEAT, DRIVERS, HEAP, RECORDS, make_topics
from benchmarks.watch import run
from devstack.drivers import hand_run_stream, wait_for
from devstack.jars import fetch, kafka_broker, spark_connector
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_tools import kafka_tools
from devstack.ports import HOST, free_port
from devstack.processes import java
from devstack.spark import bundled_spark

SECONDS = 60.0
# The batch from which a holder is warm, and seconds until a standby is.
WARM_BATCH, WARM_SECONDS = 10, 10.0
# More than a reader looks at first for an index: see `topic_reader.TAILS`.
BEATS = 8
VARIABLE = "JAVA_TOOL_OPTIONS"
# What a broker asks its controller, here in one process; and what it counts once more, as Fetch.
LEFT_OUT = {"BrokerHeartbeat", "BrokerRegistration", "ControllerRegistration", "FetchConsumer", "FetchFollower"}
PREFIX = "looks"
# What the YAML of a stream says.
SPEC = {
    "application": "apps/orders.py",
    "version": "1.0",
    "cluster": "spark_here",
    "control": f"kafka://kafka_here/{PREFIX}",
    "storage": "file:///releases",
}
_COUNT = re.compile(r"request=(?P<kind>\w+),version=\d+:Count=(?P<count>\d+)")

Count = Callable[[], Counter[str]]

LOOK = """
import json, math, sys
from airflow_stream_provider.monitoring import folder_reading, liveness, root_reads
from airflow_stream_provider.monitoring.folder_look import look_at_all
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Watched
liveness.FRESH_SECONDS = math.inf
folder_reading.STAGE_SECONDS = 3600.0
root_reads.EACH_SECONDS = root_reads.READ_SECONDS = root_reads.WRITE_SECONDS = 3600.0
spec, size = json.loads(sys.argv[1]), int(sys.argv[2])
specs = [StreamSpec.model_validate({**spec, "name": f"s{number:04d}"}) for number in range(size)]
look = look_at_all([Watched(each) for each in specs], {}, {})
print(json.dumps({"summary": look.summary, "revive": look.revive}))
"""


@contextmanager
def counting_broker(folder: Path) -> Iterator[tuple[KafkaCluster, Count]]:
    """Run a broker, with what returns the requests that it has answered until now, by kind."""
    port = free_port()
    jmx = {"port": port, "rmi.port": port, "host": HOST, "authenticate": "false", "ssl": "false"}
    options = [f"-Dcom.sun.management.jmxremote.{key}={value}" for key, value in jmx.items()]
    before = os.environ.get(VARIABLE)
    with contextlib.ExitStack() as stack:
        os.environ[VARIABLE] = " ".join([before or "", *options, f"-Djava.rmi.server.hostname={HOST}"])
        try:
            kafka = stack.enter_context(KafkaCluster(folder, heap=HEAP))
        finally:
            # No other JVM takes the port.
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
        yield kafka, partial(answered, port)


def answered(port: int) -> Counter[str]:
    """Return the requests that a broker has answered since its start, by kind."""
    command = [
        java(),
        "-Xmx64m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{fetch(kafka_broker())}/*:{fetch(kafka_tools())}/*",
    ]
    command += ["org.apache.kafka.tools.JmxTool", "--one-time", "--report-format", "properties"]
    command += ["--jmx-url", f"service:jmx:rmi:///jndi/rmi://{HOST}:{port}/jmxrmi", "--attributes", "Count"]
    command += ["--object-name", "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    found: Counter[str] = Counter()
    for each in _COUNT.finditer(done.stdout):
        if each["kind"] not in LEFT_OUT:
            found[each["kind"]] += int(each["count"])
    if not found:
        raise SystemExit(f"the broker counts nothing: {done.stdout[:500]}{done.stderr[-500:]}")
    return found


def minute(count: Count) -> tuple[dict[str, float], float]:
    """Wait a minute; return the requests of a second, by kind, and the seconds that it lasted."""
    before, began = count(), time.monotonic()
    time.sleep(SECONDS)
    after, seconds = count(), time.monotonic() - began
    return {kind: found / seconds for kind, found in (after - before).items()}, seconds


def drivers(kafka: KafkaCluster, count: Count) -> dict[str, dict[str, float]]:
    """Run a holder, then a standby beside it, and return their requests per second and per batch, by kind."""
    root = TopicRoot("kafka://here/drivers", "here", kafka.extra, "drivers")
    with tempfile.TemporaryDirectory() as scratch, hand_run_stream(Path(scratch), root) as stream:
        jars = fetch(spark_connector(bundled_spark()))
        stream.spark_conf["spark.driver.extraClassPath"] = ":".join(map(str, sorted(jars.glob("*.jar"))))
        checkpoint, progress = f"{scratch}/checkpoint", Path(scratch) / "progress"
        stream.deploy("orders-1", APP, checkpoint, str(progress))
        stream.hand_over(stream.standby("orders-1"))
        wait_for("some batches", lambda: last_batch(progress) >= WARM_BATCH)
        first = last_batch(progress)
        holder, seconds = minute(count)
        batches = last_batch(progress) - first
        stream.deploy("orders-2", APP, checkpoint, f"{progress}-2")
        stream.standby("orders-2")
        time.sleep(WARM_SECONDS)
        both, _ = minute(count)
    root.close()
    return {
        "holder, a second": holder,
        "holder, a batch": {kind: found * seconds / batches for kind, found in holder.items()},
        "standby adds, a second": {kind: found - holder.get(kind, 0.0) for kind, found in both.items()},
    }


def looks(kafka: KafkaCluster, count: Count, sizes: Sequence[int]) -> dict[int, Counter[str]]:
    """Look at ever more streams, and return by their number the requests of one look, by kind."""
    names = [f"s{number:04d}" for number in range(max(sizes))]
    root = TopicRoot(f"kafka://kafka_here/{PREFIX}", "kafka_here", kafka.extra, PREFIX)
    root.make()
    # One after the other: what is sent again must not come behind later messages.
    producer = KafkaProducer(
        bootstrap_servers=kafka.servers, enable_idempotence=False, max_in_flight_requests_per_connection=1
    )
    with kafka.client() as client:
        make_topics(client, producer, [topic_name(PREFIX, name) for name in names], beats=0)
    producer.close()
    connections = {
        "AIRFLOW_CONN_KAFKA_HERE": json.dumps({"conn_type": "kafka", "extra": kafka.extra}),
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    found = {}
    for size in sizes:
        # The second one is of a driver that has ended.
        beat(root, names[:size], DRIVERS)
        look(size, connections)
        beat(root, names[:size], DRIVERS[:1] * BEATS)
        before = count()
        look(size, connections)
        found[size] = count() - before
        print(f"a look at {size} streams: {found[size].total()} requests", flush=True)
    root.close()
    return found


def look(size: int, connections: Mapping[str, str]) -> None:
    """Look once in a process of its own; every stream must be well, or it would be another look."""
    found = run(LOOK, json.dumps(SPEC), size, **connections)
    summary = found["summary"]
    if summary["looked"] != size or summary["unanswered"] or summary["incidents"] or found["revive"]:
        raise SystemExit(f"a look at {size} streams found what is not there: {found}")


def beat(root: TopicRoot, names: Sequence[str], whose: Sequence[str]) -> None:
    """Let drivers of streams beat, one after the other; `whose`: the incarnations."""

    def one(name: str) -> None:
        for incarnation in whose:
            now = time.time()
            heartbeat = replace(BEAT, counter=round(now * 1000), at=now, seq=RECORDS)
            root.store(name).put_heartbeat(incarnation, heartbeat.to_json())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, names))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory() as root, counting_broker(Path(root)) as (kafka, count):
        sides = drivers(kafka, count)
        show_counts("requests to the control topic", sides)
        by_size = looks(kafka, count, sorted(options.streams))
    columns: dict[str, Mapping[str, float]] = {f"at {size}": found for size, found in by_size.items()}
    columns |= {
        f"at {size}, each": {kind: sent / size for kind, sent in found.items()} for size, found in by_size.items()
    }
    show_counts("requests of one look at so many streams", columns)
    write("control_requests", {"drivers": sides, "looks": by_size, "machine": before})
    return 0


if __name__ == "__main__":
    sys.exit(main())
