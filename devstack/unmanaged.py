"""A job that runs without this provider: a script, submitted to the stack's standalone cluster as it is."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from airflow_stream_provider.clusters import ClusterConnection
from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.master_api import MAIN_CLASS
from devstack.stack_stream import APP, QUERIES, StackStream


def submit_unmanaged(stream: StackStream, *options: str) -> str:
    """Submit the application that the stream's releases run, with the same arguments; return the driver's id.

    :param options: more arguments for the application.
    """
    arguments = (*stream.arguments(), *options)
    return submit_script(stream.stack.cluster.connection, APP, arguments, conf=stream.conf())


def submit_script(
    connection: Mapping[str, Any],
    script: Path,
    arguments: Sequence[str],
    *,
    conf: Mapping[str, str],
    py_files: Sequence[Path] = (),
) -> str:
    """Submit a script to a standalone cluster as people do, and return the driver's id.

    :param connection: of Airflow, to the cluster.
    """
    masters = ClusterConnection(connection["host"], extra=connection["extra"]).masters
    files = ",".join(map(str, py_files))
    properties = {
        **conf,
        "spark.app.name": f"{script.stem} by hand",
        "spark.master": masters.url,
        "spark.submit.deployMode": "cluster",
        "spark.submit.pyFiles": files,
        "spark.files": files,
        "spark.driver.supervise": "false",
    }
    request = {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.0.0",
        "appResource": "",
        "mainClass": MAIN_CLASS,
        "appArgs": [str(script), files, *arguments],
        "sparkProperties": properties,
        "environmentVariables": {},
    }
    return create(api.find_master(masters), request)


def create(master: api.Master, request: Mapping[str, Any]) -> str:
    """Submit a driver with a person's patience, and return its id: the provider's own call gives up after seconds."""
    answer = requests.post(f"{master.rest}/v1/submissions/create", json=request, timeout=120).json()
    return str(answer["submissionId"])


def end_unmanaged(stream: StackStream, job: str) -> None:
    """End such a job, and wait until it and its executors are gone."""
    stream.cluster.kill(job)
    deadline = time.monotonic() + 60
    while not (found := stream.cluster.unmanaged(job)) or not found.gone:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def yaml_of(stream: StackStream, folder: Path, **more: Any) -> Path:
    """Write the YAML of the stream that is to follow such a job, and return its path; its script is what the job runs.

    :param folder: for `streams/` and `apps/`.
    :param more: fields of the YAML besides the usual ones.
    """
    for name in ("streams", "apps"):
        (folder / name).mkdir()
    shutil.copy(APP, folder / "apps")
    body = {
        "name": stream.stream,
        "application": f"apps/{APP.name}",
        "arguments": list(stream.arguments()),
        "version": "1",
        "cluster": "spark_default",
        "control": stream.url,
        "conf": stream.conf(),
        **more,
    }
    file = folder / "streams" / f"{stream.stream}.yaml"
    file.write_text(json.dumps(body))  # which is YAML, too
    return file


def leave(stream: StackStream) -> None:
    """Remove the marks of the owner beside the checkpoints of a stream that was stopped: they are nobody's again."""
    assert isinstance(stream.checkpoint, Path), "it is in a folder of this machine"
    for query in QUERIES:
        (stream.checkpoint / f"{query}.owner").unlink()
