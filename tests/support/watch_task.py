"""The task `look` of the watch without Airflow's database and with a double of `FolderLook`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_stream_provider.monitoring.causes import FolderMemory
from airflow_stream_provider.monitoring.folder_look import Found
from airflow_stream_provider.operators.watch import WatchStreamsOperator
from airflow_stream_provider.spec.stream import StreamSpec

SPEC = "name: {name}\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\n"


class Variables:
    """Airflow's Variables."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.writes = 0
        # Whether the API server does not answer when one is read.
        self.away = False

    def get(self, key: str, default: Any) -> Any:
        return default if self.away else self.values.get(key, default)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]

    def set(self, key: str, value: Any, description: str, serialize_json: bool) -> None:
        self.writes += 1
        self.values[key] = json.dumps(value)


class Look:
    """The double of a look, which says what the test wants."""

    def __init__(self, airflow: Airflow, watch: str, files: Any, roots: Any, left: Any, *more: Any, **how: Any) -> None:
        self.airflow, self.now = airflow, 60.0 * airflow.minute
        self.memory = airflow.memory
        self.watching = self
        airflow.asked = {"watch": watch, "roots": sorted(roots), "left": left, **how}
        airflow.files = [each.path.name for each in files]

    def go(self) -> Found:
        if self.airflow.fails is not None:
            raise self.airflow.fails
        fields = {"application": "a", "version": "v", "cluster": "c", "control": "file:///d"}
        revive = {name: StreamSpec.model_validate({"name": name, **fields}) for name in self.airflow.revive}
        return Found(revive, {"looked": 2}, beside=self.airflow.beside, changed=self.airflow.changed)

    def tell_of_watch(self, problem: str) -> None:
        self.airflow.told.append(problem)

    def keep(self) -> None:
        self.airflow.kept += 1


class Airflow:
    """What a task sees of Airflow: variables, and how many runs there are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = Variables()
        self.pushed: dict[str, Any] = {}
        # The runs that are under way, by state.
        self.runs: dict[str, set[str]] = {"running": set(), "queued": set()}
        self.minute = 28_000_000
        self.memory = FolderMemory()
        self.asked: dict[str, Any] = {}
        self.files: list[str] = []
        self.revive: tuple[str, ...] = ()
        self.beside: frozenset[str] = frozenset()
        self.changed: dict[str, str] = {}
        self.fails: BaseException | None = None
        self.told: list[str] = []
        self.kept = 0

    def count(self, dag_id: str, run_ids: Sequence[str] | None = None, states: Sequence[str] = ()) -> int:
        wanted = [dag_id] if run_ids is None else run_ids
        return sum(run in self.runs[state] for state in states for run in wanted)

    def look(self, *, run_type: str = "scheduled", try_number: int = 1) -> list[dict[str, Any]]:
        self.minute += 1
        self.pushed = {}
        ti = SimpleNamespace(
            dag_id="p.streams__watch",
            try_number=try_number,
            xcom_push=lambda key, value: self.pushed.update({key: value}),
            get_dr_count=self.count,
        )
        run = SimpleNamespace(run_type=run_type, run_after=datetime.fromtimestamp(60.0 * self.minute, UTC))
        task = WatchStreamsOperator(task_id="look", streams=self.folder, prefix="p.")
        context: Any = {"ti": ti, "dag_run": run}
        return task.execute(context)

    def write(self, name: str, more: str = "", file: str = "") -> Path:
        path = self.folder / (file or f"{name}.yaml")
        path.write_text(SPEC.format(name=name) + more)
        return path
