"""How many requests a control log in Kafka costs: of a holder, of a standby, and of one look of Airflow's watch.

    python -m benchmarks.control_requests [--streams 10 100 1000]

The broker counts, by kind, what it answers (JMX, RequestsPerSec); what it asks its own controller is left out.

The drivers are real: a holder with a batch a second, alone for a minute; then with a standby beside it, also for a
minute. The checkpoint is in a folder, and the source is not Kafka: all requests are those of the control log.

The streams of a look, and what a look is, are those of `benchmarks.topic_looks`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from airflow_stream_provider.kafka.control_root import TopicRoot
from benchmarks import topic_looks
from benchmarks.results import machine, show_counts, write
from benchmarks.storage_requests import APP, last_batch
from benchmarks.topic_looks import HEAP
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
VARIABLE = "JAVA_TOOL_OPTIONS"
# What a broker asks its controller, here in one process; and what it counts once more, as Fetch.
LEFT_OUT = {"BrokerHeartbeat", "BrokerRegistration", "ControllerRegistration", "FetchConsumer", "FetchFollower"}
_COUNT = re.compile(r"request=(?P<kind>\w+),version=\d+:Count=(?P<count>\d+)")

Count = Callable[[], Counter[str]]


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
    found = {}
    with topic_looks.control_root(kafka) as root:
        logs = topic_looks.make_streams(kafka, root, 0, max(sizes))
        for size in sizes:
            topic_looks.look(kafka, size)
            topic_looks.beat(logs[:size])
            before = count()
            topic_looks.look(kafka, size)
            found[size] = count() - before
            print(f"a look at {size} streams: {found[size].total()} requests", flush=True)
    return found


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
