"""Where a stream of the stack keeps its control log, its releases and its checkpoints, and the servers for that."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_stream_provider.checkpoint.files import Place
from devstack.hdfs import Hdfs
from devstack.jars import JarSet, spark_s3a
from devstack.processes import Processes
from devstack.s3 import BUCKET, S3Server, moto, s3proxy
from devstack.spark import bundled_spark
from devstack.webhdfs_files import webhdfs_place

FILE, KAFKA, HDFS = "file", "kafka", "hdfs"
CONTROL_PREFIX = "streams"
CONTROL_URL = f"kafka://kafka_default/{CONTROL_PREFIX}"
"""The control URL in the stack's own Kafka, by the connection that the stack gives to its Airflow."""
CONNECTION = "stack_storage"


@dataclass(frozen=True)
class Pair:
    """Where a stream keeps what: its control log, ``file`` or ``kafka``, and its files; see `open_storage`."""

    control: str = FILE
    storage: str = FILE

    def __str__(self) -> str:
        return f"{self.control}+{self.storage}"


@dataclass(frozen=True)
class Storage:
    """A storage that runs.

    :param url: URL or path below which everything is.
    :param fields: the fields of the stream's YAML that name the storage; none: releases are in the control folder.
    :param variables: environment variables of Airflow.
    :param libraries: jars that Spark needs for it.
    :param core_site: Hadoop's settings that Spark needs for it.
    :param server: the process that is the storage; None: the disk.
    :param folder: `url`, to be read from here; None: nothing here reads it.
    """

    url: str
    fields: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    libraries: Sequence[JarSet] = ()
    core_site: Mapping[str, str] = field(default_factory=dict)
    server: psutil.Process | None = None
    folder: Place | None = None

    @property
    def checkpoints(self) -> str:
        """URL or path below which the queries' checkpoints are."""
        return f"{self.url}/checkpoints"


@contextlib.contextmanager
def open_storage(kind: str, folder: Path) -> Iterator[Storage]:
    """Start a storage: ``file``, ``hdfs``, ``moto`` or ``s3proxy``, the last two by S3A.

    :param folder: of the files, or of those of the server.
    :raises StackError: it does not come up.
    """
    if kind == FILE:
        yield Storage(str(folder), folder=folder)
    elif kind == HDFS:
        with contextlib.closing(Processes(folder / "logs")) as processes:
            hdfs = Hdfs(folder / "hdfs", processes)
            hdfs.start()
            assert hdfs.process is not None
            place = webhdfs_place(hdfs.url, "/streams", hdfs.web_url, hdfs.connection["login"])
            yield remote_storage(str(place), hdfs.connection, server=psutil.Process(hdfs.process.pid), folder=place)
    else:
        with {"moto": moto, "s3proxy": s3proxy}[kind](folder) as s3:
            yield _on_s3(s3, None if s3.objects is None else s3.objects / "streams")


def stream_settings(control: str, storage: Storage, brokers: str, data: Path) -> dict[str, Any]:
    """Return the fields of the example stream's YAML by which it uses a control log and a storage.

    :param control: ``file``: as `demo.environment.lay_out` makes it; ``kafka``: in the Kafka that the stream reads.
    :param brokers: bootstrap servers of that Kafka.
    :param data: folder of the stream; releases are in it, where they cannot lie in a control folder.
    """
    fields: dict[str, Any] = {
        "arguments": ["--kafka", brokers, "--checkpoint", f"{storage.checkpoints}/orders"],
        **storage.fields,
    }
    if control == KAFKA:
        fields["control"] = CONTROL_URL
        if "storage" not in fields:
            releases = data / "releases"
            releases.mkdir(parents=True, exist_ok=True)
            fields["storage"] = releases.as_uri()
    return fields


def _on_s3(s3: S3Server, folder: Path | None) -> Storage:
    assert s3.process is not None
    return remote_storage(
        f"s3a://{BUCKET}/streams",
        s3.connection,
        libraries=(spark_s3a(bundled_spark()),),
        core_site=s3.core_site,
        server=psutil.Process(s3.process.pid),
        folder=folder,
    )


def remote_storage(url: str, connection: Mapping[str, Any], **more: Any) -> Storage:
    """Return a storage that Airflow reaches by a connection.

    :param more: the other fields of `Storage`.
    """
    return Storage(
        url,
        {"storage": f"{url}/releases", "storage_connection": CONNECTION},
        {f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps(connection)},
        **more,
    )
