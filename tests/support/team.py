"""Who upgrades a stream whose drivers run on this machine: its YAML, its connections, and its tasks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import processes
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.spec.stream import load_spec
from tests.support.places import SMALL
from tests.support.tries import Tries

APP = Path(__file__).with_name("app_orders_files.py")


class Standby(SubmitStandbyOperator):
    """The operator, with a log that can be read: Airflow's own cannot once it is set up."""

    log: Any = logging.Logger("standby")


@dataclass
class Team:
    """Submits release 2 of the stream `orders`, whose script is `app_orders_files.py`."""

    folder: Path

    def upgrade(
        self, control: str, *arguments: str, storage: Path | None = None, conf: Mapping[str, str] | None = None
    ) -> Tries:
        """Begin the task that brings up a standby beside the holder; `storage` is a folder that is made here."""
        (self.folder / "apps").mkdir(parents=True)
        (self.folder / "apps" / "app.py").write_text(APP.read_text())
        says = {
            "name": "orders",
            "application": "apps/app.py",
            "arguments": list(arguments),
            "version": "2",
            "cluster": "spark_here",
            "control": control,
            "conf": {**SMALL, **(conf or {})},
            **({"storage": storage.as_uri()} if storage else {}),
        }
        if storage:
            storage.mkdir()
        (self.folder / "streams").mkdir()
        path = self.folder / "streams" / "orders.yaml"
        path.write_text(json.dumps(says))
        return Tries(Standby(task_id="t", stream=load_spec(path)))

    def kill(self) -> None:
        """Kill all drivers that it has submitted."""
        for submission in {each for _, each in processes.marked() if Path(each).is_relative_to(self.folder.parent)}:
            processes.end(submission)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """Its drivers are killed at the end."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    found = Team(tmp_path / "team")
    yield found
    found.kill()
