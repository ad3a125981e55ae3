"""The environment of the demo: a DAG folder with the stream `orders`, and an Airflow that runs it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.control import ControlLog, make_root
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack import kafka_writes
from devstack.airflow_api import AirflowApi
from devstack.places import Storage
from devstack.unmanaged import submit_script

TOPICS = {"orders": 2, "orders-enriched": 2, "order-totals": 2}
"""The topics of the stream, with their numbers of partitions."""
QUERIES = ("enrich", "totals")


@dataclass(frozen=True)
class DemoEnvironment:
    """A stream and an Airflow.

    :param spec: the stream. Its arguments name the brokers and the checkpoints.
    :param airflow: client for the Airflow that runs its DAGs.
    :param storage: where its checkpoints are; None: in the folder that the arguments name.
    :param cluster: Airflow connection to the standalone cluster, to which its script can be submitted by hand; None: it
        cannot.
    """

    spec: StreamSpec
    airflow: AirflowApi
    storage: Storage | None = None
    cluster: Mapping[str, Any] | None = None

    @classmethod
    def at(
        cls,
        dags: Path,
        airflow: AirflowApi,
        storage: Storage | None = None,
        cluster: Mapping[str, Any] | None = None,
    ) -> DemoEnvironment:
        """Return the environment of a DAG folder.

        :raises SpecError: its `streams/orders.yaml` is not valid.
        """
        return cls(load_spec(dags / "streams" / "orders.yaml"), airflow, storage, cluster)

    def submit_by_hand(self) -> str:
        """Submit the stream's script as people do who have no such provider, and return the driver's id."""
        assert self.cluster is not None, "there is a cluster to submit it to"
        spec = self.spec
        files = [spec.root / name for name in spec.py_files]
        return submit_script(
            self.cluster, spec.root / spec.application, spec.arguments, conf=dict(spec.conf), py_files=files
        )

    @property
    def log(self) -> ControlLog:
        """The stream's control log."""
        return ControlLog(control_root(self.spec.control).store(self.spec.name, create=True), self.spec.name)

    @property
    def brokers(self) -> str:
        """The bootstrap servers of Kafka."""
        return self._argument("--kafka")

    @property
    def checkpoints(self) -> dict[str, Place]:
        """The folder of each query's checkpoint, by name of the query."""
        folder: Place = Path(self._argument("--checkpoint"))
        if self.storage is not None:
            assert self.storage.folder is not None
            folder = self.storage.folder / "checkpoints" / "orders"
        return {query: folder / query for query in QUERIES}

    def _argument(self, option: str) -> str:
        return self.spec.arguments[self.spec.arguments.index(option) + 1]


def lay_out(source: Path, target: Path, *, brokers: str, data: Path, changes: Mapping[str, Any]) -> None:
    """Copy the repository's DAG folder, and change its stream to use other brokers and another data folder.

    Makes the control root there, too.

    :param source: the DAG folder to copy.
    :param target: where to copy it.
    :param brokers: bootstrap servers of Kafka.
    :param data: folder for the control log and the checkpoints.
    :param changes: other fields of the stream's YAML to change. Mappings are merged, not replaced.
    """
    shutil.copytree(source, target, dirs_exist_ok=True)
    path = target / "streams" / "orders.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["control"] = (data / "streams").as_uri()
    make_root(fields["control"])
    fields["arguments"] = ["--kafka", brokers, "--checkpoint", str(data / "checkpoints" / "orders")]
    for name, value in changes.items():
        fields[name] = {**fields.get(name, {}), **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


def create_topics(brokers: str) -> None:
    """Create those topics of the stream that do not exist yet."""
    with KafkaClient("demo", {"bootstrap.servers": brokers}) as client:
        kafka_writes.create_topics(client, TOPICS)
