"""The task `look` of the watch without Airflow's database: it runs again and again, on a folder of streams."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_stream_provider.monitoring.folder_look import FolderLook
from airflow_stream_provider.monitoring.recipients import takes_alerts
from airflow_stream_provider.operators.watch import WatchStreamsOperator
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Watched

SPEC = (
    "name: {name}\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\n"
    f"notify: [{{{{call: {__name__}.page, arguments: {{{{who: {{name}}}}}}}}}}]\n"
)
TOLD: list[tuple[str, Any]] = []


@takes_alerts
def page(alert: Any, who: str) -> None:
    """Whom the streams of these tests tell."""
    TOLD.append((who, alert))


class Airflow:
    """What a task sees of Airflow: XCom of earlier runs by key, and how many runs and tasks there are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.xcom: dict[str, Any] = {}
        self.pushed: dict[str, Any] = {}
        self.pulled: list[str] = []
        self.waiting = 0
        self.active: set[str] = set()
        self.queued: set[str] = set()
        self.beside: frozenset[str] = frozenset()
        self.minute = 28_000_000
        self.asked: list[Watched] = []
        self.memories: list[Mapping[str, Any]] = []
        self.revive: tuple[str, ...] = ()
        self.changed: dict[str, str] = {}
        self.fails: BaseException | None = None
        self.others: list[str] = []
        self.in_common = False
        self.problem = ""

    def look_at_all(
        self,
        watched: Sequence[Watched],
        memory: Mapping[str, Any],
        context: Mapping[str, Any],
        others: Sequence[StreamSpec],
        in_common: bool,
    ) -> FolderLook:
        if self.fails is not None:
            raise self.fails
        self.asked, self.others, self.in_common = list(watched), [each.name for each in others], in_common
        self.memories.append(memory)
        looks = {"looks": memory.get("looks", 0) + 1}
        return FolderLook(looks, self.revive, {"looked": len(watched)}, self.problem, self.beside, self.changed)

    def runs(self, dag_id: str, states: Sequence[str]) -> int:
        by_state = {"running": self.active, "queued": self.queued}
        return sum(dag_id in by_state[state] for state in states)

    def pull(self, *, task_ids: str, key: str, include_prior_dates: bool, map_indexes: int) -> Any:
        assert (task_ids, include_prior_dates, map_indexes) == ("look", True, -1)
        self.pulled.append(key)
        return self.xcom.get(key)

    def push(self, key: str, value: Any) -> None:
        self.pushed[key] = self.xcom[key] = json.loads(json.dumps(value))

    def look(
        self, *, run_type: str = "scheduled", try_number: int = 1, dated: bool = True, streams: Any = None
    ) -> list[dict[str, Any]]:
        self.minute += 1
        self.pushed, self.pulled = {}, []
        at = datetime.fromtimestamp(60.0 * self.minute, UTC)
        ti = SimpleNamespace(
            dag_id="p.streams__watch",
            run_id=f"{run_type}__{self.minute}",
            task_id="look",
            try_number=try_number,
            xcom_pull=self.pull,
            xcom_push=self.push,
            get_ti_count=lambda dag_id, task_ids, states: self.waiting,
            get_dr_count=self.runs,
        )
        run = SimpleNamespace(run_type=run_type, run_after=at, logical_date=at if dated else None)
        task = WatchStreamsOperator(task_id="look", streams=streams or self.folder, prefix="p.")
        context: Any = {"ti": ti, "dag_run": run}
        return task.execute(context)

    @property
    def names(self) -> set[str]:
        return {each.spec.name for each in self.asked}

    def write(self, name: str, more: str = "", file: str = "") -> Path:
        path = self.folder / (file or f"{name}.yaml")
        path.write_text(SPEC.format(name=name) + more)
        return path
