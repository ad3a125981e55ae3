"""A control root with the stream orders, and the commands that act on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream
from tests.support.commands import Here
from tests.support.control_root import new_log
from tests.support.noting_cluster import NotingCluster
from tests.support.story import NEW_DEPLOYMENT, OLD_DEPLOYMENT


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NotingCluster:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master")
    found = NotingCluster()
    found.states = {f"driver-{each}": DriverState.FINISHED for each in (OLD_DEPLOYMENT, NEW_DEPLOYMENT)}
    monkeypatch.setattr(stream, "open_cluster", lambda connection: found)
    return found


@pytest.fixture
def control(tmp_path: Path, cluster: NotingCluster) -> str:
    """The control root of the stream orders, whose YAML says release 1."""
    for name in ("streams", "apps"):
        (tmp_path / "dags" / name).mkdir(parents=True)
    (tmp_path / "dags" / "apps" / "orders.py").write_text("x = 1\n")
    (tmp_path / "dags" / "streams" / "orders.yaml").write_text(
        f'name: orders\napplication: apps/orders.py\nversion: "1"\ncluster: spark_default\ncontrol: file://{tmp_path}\n'
    )
    return f"file://{tmp_path}"


@pytest.fixture
def log(control: str) -> ControlLog:
    return new_log(control)


@pytest.fixture
def here(
    tmp_path: Path, control: str, log: ControlLog, cluster: NotingCluster, capsys: pytest.CaptureFixture[str]
) -> Here:
    return Here(tmp_path / "dags" / "streams", control, log, cluster, capsys.readouterr)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], str]]:
    """What a person at a terminal does when the command asks, time after time."""
    left: list[Callable[[], str]] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt: left.pop(0)())
    return left
