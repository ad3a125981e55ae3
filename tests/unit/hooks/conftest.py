"""A hook on a control log of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.hooks.stream import StreamHook
from tests.support.noting_cluster import NotingCluster


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
