"""Run one Kafka broker, a KRaft node that is also its own controller, as a part of the local stack."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.jars import Progress, fetch, kafka_broker
from devstack.kafka_writes import create_topics
from devstack.ports import HOST, free_port, listening
from devstack.processes import Process, Processes, java, stop

START_SECONDS = 600.0
CLUSTER_ID = "bG9jYWwtc3RhY2stMDAwMA"
# Small, and quick to start: the demo's load needs neither the optimising compiler nor a parallel collector.
JVM = (
    *("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.apache.logging.log4j.level=INFO",
)


class Broker:
    """A broker on free ports of the loopback address. Its data is deleted at every start.

    For several brokers, or for TLS, SASL and ACLs, use `KafkaCluster`.

    :param folder: folder for its settings and data; emptied at the start.
    :param processes: where its processes are started.
    :param progress: called while jars are fetched.
    """

    def __init__(self, folder: Path, processes: Processes, progress: Progress | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.bootstrap_servers = f"{HOST}:{self.port}"
        self.process: Process | None = None
        self._controller_port = free_port()
        self._processes = processes
        self._progress = progress

    def start(self) -> None:
        """Fetch missing jars, format the storage, start the broker, and wait until it serves clients.

        :raises StackError: Java or a jar is missing, or the broker did not start within 600 s.
        """
        runtime = java()
        jars = fetch(kafka_broker(), progress=self._progress)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        command = [runtime, *JVM, "-cp", f"{jars}/*"]
        self._processes.run(
            "kafka-format",
            [*command, "kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(settings)],
            env={},
            folder=self.folder,
            seconds=START_SECONDS,
        )
        self.process = self._processes.start(
            "kafka", [*command, "kafka.Kafka", str(settings)], env={}, folder=self.folder
        )
        self._processes.wait_for("Kafka to serve clients", self._serves, START_SECONDS, self.process)

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``kafka`` to this broker."""
        return {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap_servers}}

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics and wait until all partitions have leaders.

        :param partitions: number of partitions by topic.
        :raises StreamError: one is there: who counts its records would count another stream's, too.
        """
        from airflow_stream_provider.kafka.client import KafkaClient

        with KafkaClient("local", self.connection["extra"]) as client:
            there = sorted(client.topics(partitions))
            if there:
                raise StreamError(
                    f"Kafka has topics of these names already: {', '.join(there)}.",
                    next_step="Give each stream of a stack its own name.",
                    topics=there,
                )
            create_topics(client, partitions)

    def stop(self) -> None:
        """Stop the broker. Does nothing if it is not running."""
        stop(self.process)

    def _serves(self) -> bool:
        from airflow_stream_provider.kafka.client import KafkaClient
        from airflow_stream_provider.kafka.connect import BrokerUnreachable

        if not listening(self.port):
            return False
        try:
            with KafkaClient("local", self.connection["extra"]) as client:
                return bool(client.describe_cluster()["brokers"])
        except BrokerUnreachable:
            return False

    def _settings(self) -> dict[str, object]:
        controller = f"{HOST}:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.folder / "data",
            # A request for a topic that nobody created has to fail.
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
