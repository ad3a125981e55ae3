from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.operators import watch
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import new_log
from tests.support.noting_cluster import NotingCluster
from tests.support.tasks import spec_in
from tests.support.watch_task import Airflow, Look


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
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Airflow:
    """A folder of two streams, that are looked at."""
    found = Airflow(tmp_path / "streams")
    found.folder.mkdir()
    found.write("orders")
    found.write("payments")
    look = "airflow_stream_provider.monitoring.folder_look.FolderLook"
    monkeypatch.setattr(look, partial(Look, found))
    monkeypatch.setattr(watch, "Variable", found.variables)
    return found
