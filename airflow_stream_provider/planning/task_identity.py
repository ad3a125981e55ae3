"""The identity of one task: what its records, requests and deployments are named by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.lifecycle.ids import deployment_id, request_id


@dataclass(frozen=True)
class TaskIdentity:
    """One task of one run, without the try number: a retried or cleared task has the same identity (rule 5)."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> TaskIdentity:
        """Return the identity of the task that Airflow's context describes."""
        ti = context["ti"]
        index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, index)

    @property
    def run(self) -> str:
        """The prefix of `by` that all tasks of the run share."""
        return f"airflow:{self.dag_id}/{self.run_id}/"

    @property
    def by(self) -> str:
        """The author in the task's records."""
        return f"{self.run}{self.task_id}" + (f"[{self.map_index}]" if self.map_index >= 0 else "")

    def request(self, *parts: object) -> str:
        """Return the id of a request of this task; `parts` tell its purpose."""
        return request_id(self.dag_id, self.run_id, self.task_id, self.map_index, *parts)

    def deployment(self, stream: str, version: str, lost: int = 0) -> str:
        """Return the id of the deployment that this task declares for a release of this version.

        :param lost: how many it has declared before that were lost; see `planning.own_tries`.
        """
        more = (lost,) if lost else ()
        return deployment_id(stream, version, self.dag_id, self.run_id, self.task_id, self.map_index, *more)
