"""A folder of streams that is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.monitoring import folder_reading, health
from tests.support.watched_folder import OVER, Folder


@pytest.fixture
def spark_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection of the streams' cluster is to this machine."""
    # Another machine's processes are none of this test's.
    monkeypatch.setattr("airflow_stream_provider.clusters.processes.marked", lambda: iter(()))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    # No driver beats between two reads of a look here.
    monkeypatch.setattr(health, "AGAIN_SECONDS", 0.0)
    for name in ("EACH_SECONDS", "READ_SECONDS", "WRITE_SECONDS", "STAGE_SECONDS"):
        monkeypatch.setattr(folder_reading, name, 300.0)  # of a busy machine
    monkeypatch.setattr(health, "FRESH_SECONDS", 30.0)  # as well; drivers are silent for a minute here
    OVER.clear()
    yield
    OVER.set()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Four streams without Kafka."""
    return Folder(tmp_path, 4, kafka="")
