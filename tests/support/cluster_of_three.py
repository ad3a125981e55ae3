"""Three real brokers in three racks, and Kafka's own tools to put right what an audit finds."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_stream_provider.local.broker import JVM, START_SECONDS, Broker
from airflow_stream_provider.local.jars import KAFKA_VERSION, LOG4J_VERSION, JarSet, fetch, kafka_broker
from airflow_stream_provider.local.ports import HOST
from airflow_stream_provider.local.processes import Processes, java

TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


def kafka_tools() -> JarSet:
    """What Kafka's distribution has in `bin` besides the broker's own tools."""
    return JarSet(
        f"kafka-tools-{KAFKA_VERSION}",
        (
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        ),
    )


class Node(Broker):
    """One of the three: broker and controller."""

    def __init__(self, number: int, folder: Path, processes: Processes) -> None:
        super().__init__(folder, processes)
        self.number = number
        self.voters = ""

    @property
    def voter(self) -> str:
        """How the others find its controller."""
        return f"{self.number}@{HOST}:{self._controller_port}"

    def revive(self) -> None:
        """Start it again on the data it had."""
        self.process = self._processes.start(
            "kafka",
            [java(), *JVM, "-cp", f"{fetch(kafka_broker())}/*", "kafka.Kafka", str(self.folder / "server.properties")],
            env={},
            folder=self.folder,
        )
        self._processes.wait_for("Kafka to serve clients", self._serves, START_SECONDS, self.process)

    def _settings(self) -> dict[str, object]:
        return {
            **super()._settings(),
            "node.id": self.number,
            "controller.quorum.voters": self.voters,
            "broker.rack": f"zone-{self.number}",
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.min.isr": 2,
            # Nobody has a name here, and may do everything but what a test denies to all.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            # A broker that is gone is fenced within seconds.
            "broker.session.timeout.ms": 6000,
            "broker.heartbeat.interval.ms": 1000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        }


class ClusterOfThree:
    """Three brokers on free ports of the loopback address. A context manager; nothing of it is left afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[Processes] = []
        self.nodes: list[Node] = []

    def __enter__(self) -> ClusterOfThree:
        try:
            for number in (1, 2, 3):
                # Logs of their own: a stack has one broker, and names its log so.
                self._processes.append(Processes(self.folder / f"logs-{number}"))
                self.nodes.append(Node(number, self.folder / f"node-{number}", self._processes[-1]))
            for node in self.nodes:
                node.voters = ",".join(each.voter for each in self.nodes)
            with ThreadPoolExecutor(3) as pool:  # none of them serves before two are there
                list(pool.map(Node.start, self.nodes))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all three."""
        with ThreadPoolExecutor(3) as pool:  # the last one alone cannot end in peace, and is killed after a while
            list(pool.map(Processes.close, self._processes))

    @property
    def extra(self) -> dict[str, str]:
        """The extra of an Airflow connection to them."""
        return {"bootstrap.servers": ",".join(node.bootstrap_servers for node in self.nodes)}

    def shell(self, command: str) -> str:
        """Run a command with Kafka's tools in its PATH, in a shell; return what it prints."""
        done = subprocess.run(
            ["sh", "-c", command],
            env={**os.environ, "PATH": f"{self._tools()}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        sys.stdout.write(f"$ {command}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _tools(self) -> Path:
        folder = self.folder / "bin"
        if not folder.exists():
            folder.mkdir()
            jars = f"{fetch(kafka_broker())}/*:{fetch(kafka_tools())}/*"
            for name, main in TOOLS.items():
                tool = folder / name
                tool.write_text(f'#!/bin/sh\nexec {java()} {" ".join(JVM)} -cp "{jars}" {main} "$@"\n')
                tool.chmod(0o755)
        return folder
