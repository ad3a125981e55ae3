"""A job without the launcher, which reads numbers from a topic of two partitions and has a sink of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kafka import KafkaProducer

from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.jvm_drivers import submit_arguments

ROOT = Path(__file__).parents[2]
PARTITIONS = 2
# More than any of them takes on a busy machine.
SECONDS = 1500.0


class PlainJob:
    """One job and its topic; `written`: how many numbers are in it.

    :param folder: for its checkpoints.
    :param app: file name in tests/support; it takes the servers, `words`, a checkpoint, and how it is to run.
    :param sinks: where its sink is, by the variable of the environment that says so.
    """

    def __init__(
        self, folder: Path, kafka: KafkaCluster, app: str, *words: str, others: tuple[str, ...] = (), **sinks: str
    ) -> None:
        self.folder = folder
        self.servers = kafka.servers
        self.written = 0
        self._command = [sys.executable, str(ROOT / "tests/support" / app), self.servers, *words]
        self._sinks = sinks
        with kafka.client() as client:
            create_topics(client, dict.fromkeys(("orders", *others), PARTITIONS))

    def produce(self, count: int) -> None:
        """Write so many more numbers."""
        producer = KafkaProducer(bootstrap_servers=self.servers)
        for number in range(self.written, self.written + count):
            producer.send("orders", str(number).encode(), partition=number % PARTITIONS)
        producer.flush()
        producer.close()
        self.written += count

    def start(self, checkpoint: str, *how: str) -> subprocess.Popen[str]:
        """Start it; its output is not read before it ends."""
        env = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(), **self._sinks}
        env |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        command = [*self._command, str(self.folder / checkpoint), *how]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, checkpoint: str, *how: str) -> tuple[int, str]:
        """Run it to its end; return its exit code, and what it says."""
        job = self.start(checkpoint, *how)
        try:
            out, said = job.communicate(timeout=SECONDS)
        finally:
            job.kill()
        return job.returncode, out + said
