"""Where a story keeps its control log, its releases and its checkpoints, and the servers that this needs."""

from __future__ import annotations

import contextlib
import getpass
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from devstack.hdfs import Hdfs
from devstack.jars import JarSet, spark_s3a
from devstack.processes import Processes
from devstack.s3 import BUCKET, S3Server, moto, s3proxy
from devstack.spark import bundled_spark
from tests.support.releases import hdfs_connection

CONNECTION = "story_storage"


@dataclass(frozen=True)
class Storage:
    """A storage that runs.

    :param checkpoints: URL or path below which the queries' checkpoints are.
    :param fields: the fields of the stream's YAML that name the storage; none: releases are in the control folder.
    :param variables: environment variables of Airflow.
    :param libraries: jars that Spark needs for it.
    :param core_site: Hadoop's settings that Spark needs for it.
    :param server: the process that is the storage; None: the disk.
    """

    checkpoints: str
    fields: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    libraries: Sequence[JarSet] = ()
    core_site: Mapping[str, str] = field(default_factory=dict)
    server: psutil.Process | None = None


@contextlib.contextmanager
def open_storage(kind: str, folder: Path) -> Iterator[Storage]:
    """Start a storage: ``file``, ``hdfs``, ``moto`` or ``s3proxy``, the last two by S3A.

    :raises StackError: it does not come up.
    """
    if kind == "file":
        yield Storage(str(folder / "checkpoints"))
    elif kind == "hdfs":
        with contextlib.closing(Processes(folder / "logs")) as processes:
            hdfs = Hdfs(folder / "hdfs", processes)
            hdfs.start()
            assert hdfs.process is not None
            connection = {**hdfs_connection(hdfs), "login": getpass.getuser()}
            yield _remote(f"{hdfs.url}/streams", connection, server=psutil.Process(hdfs.process.pid))
    else:
        with {"moto": moto, "s3proxy": s3proxy}[kind](folder) as s3:
            yield _on_s3(s3)


def _on_s3(s3: S3Server) -> Storage:
    assert s3.process is not None
    return _remote(
        f"s3a://{BUCKET}/streams",
        s3.connection,
        libraries=(spark_s3a(bundled_spark()),),
        core_site=s3.core_site,
        server=psutil.Process(s3.process.pid),
    )


def _remote(url: str, connection: Mapping[str, Any], **more: Any) -> Storage:
    return Storage(
        f"{url}/checkpoints",
        {"storage": f"{url}/releases", "storage_connection": CONNECTION},
        {f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps(connection)},
        **more,
    )
