from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import new_log
from tests.support.noting_cluster import NotingCluster
from tests.support.tasks import spec_in


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return spec_in(tmp_path)


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    return new_log(spec.control, spec.name)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NotingCluster:
    """The cluster that the spec's connection leads to."""
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_CONNECTION", "spark://master")
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_KAFKA", "kafka://")
    found = NotingCluster()
    monkeypatch.setattr(stream, "open_cluster", lambda connection: found)
    return found


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder of two streams, of which nobody has been told anything yet."""
    from airflow_stream_provider.operators import watch_look
    from tests.support.watch_task import TOLD, Airflow

    found = Airflow(tmp_path / "streams")
    found.folder.mkdir()
    found.write("orders")
    found.write("payments")
    monkeypatch.setattr(watch_look, "look_at_all", found.look_at_all)
    TOLD.clear()
    return found
