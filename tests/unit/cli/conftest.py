"""A stream in a folder of YAML files, on a cluster that runs nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from tests.support.control_root import new_log
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import RUNNING
from tests.support.story import OLD, write


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NotingCluster:
    """The cluster that the connection `c` leads to."""
    monkeypatch.setenv("AIRFLOW_CONN_C", "spark://master")
    found = NotingCluster()
    monkeypatch.setattr(stream, "open_cluster", lambda connection: found)
    return found


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    """The folder; `orders` asks for what runs."""
    folder = tmp_path / "dags" / "streams"
    folder.mkdir(parents=True)
    (folder.parent / "a.py").write_text("x = 1\n")
    (folder / "orders.yaml").write_text(
        f'name: orders\napplication: a.py\nversion: "1"\ncluster: c\ncontrol: file://{tmp_path}\n'
    )
    return folder


@pytest.fixture
def running(streams: Path, tmp_path: Path) -> ControlLog:
    """The control log of `orders`, which runs and has beaten a moment ago."""
    log = new_log(f"file://{tmp_path}", "orders")
    write(log, *RUNNING)
    log.beat(OLD, Heartbeat(at=time.time(), queries=(QueryProgress("a", batch=7),)))
    return log
