"""Kafka's command line tools, as its distribution has them in `bin`, to run commands of an audit and of the docs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from devstack.broker import JVM
from devstack.jars import KAFKA_VERSION, LOG4J_VERSION, JarSet, fetch, kafka_broker
from devstack.processes import java

MAINS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


def kafka_tools() -> JarSet:
    """Return the jars of those tools that are not in the broker's jars."""
    return JarSet(
        f"kafka-tools-{KAFKA_VERSION}",
        (
            f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        ),
    )


class KafkaTools:
    """A folder of Kafka's command line tools, for the PATH.

    :param folder: the folder to create; it must not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        jars = f"{fetch(kafka_broker())}/*:{fetch(kafka_tools())}/*"
        for name, main in MAINS.items():
            tool = folder / name
            tool.write_text(f'#!/bin/sh\nexec {java()} {" ".join(JVM)} -cp "{jars}" {main} "$@"\n')
            tool.chmod(0o755)

    def run(self, command: str) -> None:
        """Run a command in a shell, with the tools in the PATH.

        :raises AssertionError: the command fails.
        """
        done = subprocess.run(
            ["sh", "-c", command],
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
