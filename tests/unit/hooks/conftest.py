"""A hook on a control log of its own, and a stream that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from devstack.checkpoint_trees import commit, kafka, new, plan
from tests.support.deployed import deploy
from tests.support.noting_cluster import NotingCluster
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    STARTED,
    acquired,
    ready,
    record,
    requested,
    standby,
    submitted,
    write,
)

# Of `yaml`, with the control folder to be filled in.
YAML = """\
name: orders
application: apps/a.py
py_files: [apps/b.py]
version: "1"
cluster: spark_default
control: file://{}
conf: {{spark.cores.max: 2}}
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NotingCluster:
    """The cluster that the hook's connection leads to."""
    found = NotingCluster()
    monkeypatch.setenv("AIRFLOW_CONN_HERE", "spark://master")
    broker = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps(broker))
    monkeypatch.setattr(stream, "open_cluster", lambda connection: found)
    return found


@pytest.fixture
def hook(tmp_path: Path, cluster: NotingCluster) -> StreamHook:
    """The hook of a stream without any record."""
    make_root(f"file://{tmp_path}")
    found = StreamHook("orders", f"file://{tmp_path}", "here", "broker")
    found.create()
    return found


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    """The YAML of a stream and its files."""
    for name in ("streams", "apps"):
        (tmp_path / name).mkdir()
    (tmp_path / "apps" / "a.py").write_text("x = 1\n")
    (tmp_path / "apps" / "b.py").write_text("y = 1\n")
    path = tmp_path / "streams" / "orders.yaml"
    path.write_text(YAML.format(tmp_path))
    return path


@pytest.fixture
def running(hook: StreamHook, yaml: Path) -> StreamHook:
    """The stream runs what its YAML says."""
    asked = RequestedRelease.of(load_spec(yaml), None, None, None, ["/dropped"])
    deploy(hook, asked, OLD_DEPLOYMENT, goal="hold")
    holds = [standby(OLD), requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)]
    write(hook.control_log, submitted(OLD_DEPLOYMENT), *holds)
    return hook


@pytest.fixture
def holding(hook: StreamHook, tmp_path: Path) -> None:
    """Let a driver hold whose query has committed batch 1 at offset 20."""
    root = new(tmp_path / "out")
    for batch in (0, 1):
        plan(root, batch, kafka(orders={0: 20 * batch}))
        commit(root, batch)
    query = {"name": "out", "checkpoint": str(tmp_path / "out"), "sources": ["kafka:subscribe=orders"]}
    up = record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=[query], rehearsal={})
    write(hook.control_log, *STARTED[:2], up, requested("a", OLD), ready("a", OLD), acquired(OLD, "a", 1))
