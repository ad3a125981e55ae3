"""What chaos needs of a local stack to find its processes, with nothing of Kafka, Spark and Airflow behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

from devstack.processes import Processes


@dataclass
class NamedSpark:
    worker_names: list[str] = field(default_factory=lambda: ["spark-worker", "spark-worker-2"])


@dataclass
class NamedBroker:
    port: int = 0


@dataclass
class NamedStack:
    """A stack of which a test starts the processes itself, under the names that a real one gives them."""

    processes: Processes
    broker: NamedBroker = field(default_factory=NamedBroker)
    spark: NamedSpark = field(default_factory=NamedSpark)
