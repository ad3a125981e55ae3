"""A process that acts as an Airflow task: it submits a driver, and is killed before it can store the id."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

from airflow_stream_provider.clusters import ClusterConnection, Job

SUBMITTER = """
import importlib, json, sys, time
from airflow_stream_provider.clusters import ClusterConnection, Job
connection, job, opener = json.loads(sys.argv[1])
cluster = importlib.import_module(opener).open_cluster(ClusterConnection(**connection))
job = Job(**{**job, "arguments": tuple(job["arguments"])})
print("ready", flush=True)
sys.stdin.readline()
print(cluster.submit(job), flush=True)
time.sleep(600)
"""

ONCE = """
import json, sys
from airflow_stream_provider.clusters import ClusterConnection, Job, open_cluster
from airflow_stream_provider.control import open_log
from airflow_stream_provider.hooks.submit import submit_once
connection, job, control = json.loads(sys.argv[1])
cluster = open_cluster(ClusterConnection(**connection))
job = Job(**{**job, "arguments": tuple(job["arguments"])})
log = open_log(control, "orders")
print("ready", flush=True)
sys.stdin.readline()
submit_once(log, cluster, job, "test", first=False, verify=lambda: None)
print("done", flush=True)
"""


def submitter(
    connection: ClusterConnection, job: Job, opener: str = "airflow_stream_provider.clusters"
) -> subprocess.Popen[str]:
    """Start the task; it submits when it is let go, and then says the driver's id.

    :param opener: the module with the `open_cluster` that it opens the connection by.
    """
    return _started(SUBMITTER, [dataclasses.asdict(connection), dataclasses.asdict(job), opener])


def once(connection: ClusterConnection, job: Job, control: str) -> subprocess.Popen[str]:
    """Start a task that submits a declared deployment once it is let go, and records that in the control log."""
    return _started(ONCE, [dataclasses.asdict(connection), dataclasses.asdict(job), control])


def let_go(task: subprocess.Popen[str]) -> None:
    """Let it submit."""
    assert task.stdin is not None
    task.stdin.write("go\n")
    task.stdin.flush()


def _started(script: str, what: list[Any]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
