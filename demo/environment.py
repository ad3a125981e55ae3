"""Where the story is told: a DAG folder with the stream `orders`, and the Airflow that runs it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.airflow_api import AirflowApi

TOPICS = {"orders": 2, "orders-enriched": 2, "order-totals": 2}
"""The topics of the stream, and how many partitions each has."""
QUERIES = ("enrich", "totals")


@dataclass(frozen=True)
class DemoEnvironment:
    """A stream and an Airflow. KafkaCluster, control folder and checkpoints are those of the stream's YAML."""

    spec: StreamSpec
    airflow: AirflowApi

    @classmethod
    def at(cls, dags: Path, airflow: AirflowApi) -> DemoEnvironment:
        """Return the site of a DAG folder; raise SpecError when its `streams/orders.yaml` cannot be used."""
        return cls(load_spec(dags / "streams" / "orders.yaml"), airflow)

    @property
    def brokers(self) -> str:
        """Where Kafka is."""
        return self._argument("--kafka")

    @property
    def checkpoints(self) -> dict[str, Path]:
        """The checkpoint of each query."""
        return {query: Path(self._argument("--checkpoint")) / query for query in QUERIES}

    def _argument(self, option: str) -> str:
        return self.spec.arguments[self.spec.arguments.index(option) + 1]


def lay_out(source: Path, target: Path, *, brokers: str, data: Path, changes: Mapping[str, Any]) -> None:
    """Copy the repository's DAG folder to `target`, its stream pointed at these brokers and this data folder.

    :param changes: fields of the stream's YAML that are different here; mappings are merged, not replaced.
    """
    shutil.copytree(source, target, dirs_exist_ok=True)
    path = target / "streams" / "orders.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["control"] = (data / "streams").as_uri()
    fields["arguments"] = ["--kafka", brokers, "--checkpoint", str(data / "checkpoints" / "orders")]
    for name, value in changes.items():
        fields[name] = {**fields.get(name, {}), **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


def create_topics(brokers: str) -> None:
    """Create the stream's topics, those that are not there yet."""
    with KafkaClient("demo", {"bootstrap.servers": brokers}) as client:
        client.create_topics(TOPICS)
