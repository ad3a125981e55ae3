"""Processes with a JVM, as drivers have one, that use a control log in a topic; see `tests.support.jvm_topic`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.spark_jars import kafka_connector

ROOT = Path(__file__).parents[2]


def connector() -> str:
    """Return the class path of Spark's Kafka connector."""
    return ":".join(map(str, kafka_connector()))


def submit_arguments(jars: bool = True) -> str:
    """Return what starts a JVM; default: with the jars of Spark's Kafka connector on its class path."""
    return f"{f'--driver-class-path {connector()}' if jars else ''} pyspark-shell"


class Driver:
    """One of them.

    :param arguments: of the module.
    :param jars: whether it has the jars of Spark's Kafka connector.
    :param module: what it runs; default: `tests.support.jvm_topic`.
    """

    def __init__(self, *arguments: str, jars: bool = True, module: str = "tests.support.jvm_topic") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(jars)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self, order: str = "") -> str:
        """Return its next line, after it got an order."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if order:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def driver() -> Iterator[Callable[..., Driver]]:
    """Starts such processes, and ends them."""
    started: list[Driver] = []

    def start(*arguments: str, jars: bool = True) -> Driver:
        started.append(Driver(*arguments, jars=jars))
        return started[-1]

    yield start
    for each in started:
        each.close()
