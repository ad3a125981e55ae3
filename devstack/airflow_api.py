"""The few calls to Airflow's REST API that a person would make by hand: trigger, look, clear."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import requests

from devstack.errors import StackError

TIMEOUT = 60.0
POLL_SECONDS = 0.5
FINAL = frozenset({"success", "failed"})


class AirflowApi:
    """A client that logs in as one user; not shared between threads.

    Raises StackError when Airflow refuses a call, `requests.ConnectionError` when it does not answer.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        self._session = requests.Session()

    def healthy(self) -> bool:
        """Whether our password is taken and database, scheduler, triggerer and DAG processor are all healthy."""
        try:
            # The first call to the tasks' API builds it, for longer than a task would wait.
            _checked(self._session.get(f"{self.url}/execution/health", timeout=TIMEOUT))
            health = self.call("GET", "monitor/health")
        except (StackError, requests.RequestException):
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def wait_for_dag(self, dag_id: str, seconds: float = 120.0) -> None:
        """Wait until the DAG has been parsed; raise StackError with the folder's import errors if it is not."""
        deadline = time.monotonic() + seconds
        while not any(dag["dag_id"] == dag_id for dag in self.call("GET", "dags", exclude_stale=True)["dags"]):
            if time.monotonic() > deadline:
                errors = [each["stack_trace"] for each in self.call("GET", "importErrors")["import_errors"]]
                raise StackError(
                    f"Airflow has no DAG {dag_id!r} after {seconds:.0f} s.",
                    next_step="\n".join(errors) or "Check its name.",
                )
            time.sleep(POLL_SECONDS)

    def unpause(self, dag_id: str) -> None:
        """Let the DAG's runs be scheduled."""
        self.call("PATCH", f"dags/{dag_id}", json={"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run, as the button in the UI does, and return its id. The DAG must not be paused."""
        run = self.call("POST", f"dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": dict(conf or {})})
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """queued, running, success or failed."""
        return str(self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait_for_run(self, dag_id: str, run_id: str, seconds: float = 600.0) -> str:
        """Wait until the run has ended and return success or failed; raise StackError, naming its tasks, if not."""
        deadline = time.monotonic() + seconds
        while (state := self.run_state(dag_id, run_id)) not in FINAL:
            if time.monotonic() > deadline:
                raise StackError(
                    f"Run {run_id} of {dag_id} is {state} after {seconds:.0f} s: {self.task_states(dag_id, run_id)}.",
                    next_step=f"Look at it: {self.url}/dags/{dag_id}/runs/{run_id}",
                )
            time.sleep(POLL_SECONDS)
        return state

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The run's task instances as Airflow describes them (task_id, map_index, state, try_number, pid, …)."""
        found: list[dict[str, Any]] = self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")[
            "task_instances"
        ]
        return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State by task id; None while nothing was decided about the task."""
        return {task["task_id"]: task["state"] for task in self.tasks(dag_id, run_id)}

    def clear(self, dag_id: str, run_id: str, task_ids: Iterable[str], *, downstream: bool = True) -> None:
        """Clear tasks of a run, whatever state they are in, so that they run again."""
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "include_downstream": downstream,
        }
        self.call("POST", f"dags/{dag_id}/clearTaskInstances", json=body)

    def task_log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """The log of one try of a task, one line per event."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
        content = self.call("GET", path, full_content=True)["content"]
        return "\n".join(each if isinstance(each, str) else str(each.get("event")) for each in content)

    def call(self, method: str, path: str, *, json: object = None, **query: object) -> dict[str, Any]:
        """Call `/api/v2/PATH` and return the decoded answer; raise StackError with what Airflow said if it refuses."""
        if "Authorization" not in self._session.headers:
            answer = self._session.post(f"{self.url}/auth/token", json=self._login, timeout=TIMEOUT)
            self._session.headers["Authorization"] = f"Bearer {_checked(answer)['access_token']}"
        url = f"{self.url}/api/v2/{path}"
        return _checked(self._session.request(method, url, json=json, params=query, timeout=TIMEOUT))  # type: ignore[arg-type]


def _checked(answer: requests.Response) -> dict[str, Any]:
    if not answer.ok:
        raise StackError(
            f"Airflow refused {answer.request.method} {answer.request.path_url} ({answer.status_code}): "
            f"{answer.text[:500]}.",
            next_step="Correct the call, or read the API server's log.",
            status=answer.status_code,
        )
    body: dict[str, Any] = answer.json() if answer.content else {}
    return body
