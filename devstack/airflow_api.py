"""Call Airflow's REST API: trigger DAG runs, read their state, clear tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from devstack.errors import StackError

TIMEOUT = 60.0
# For what must not be said twice.
LONG_TIMEOUT = 300.0
POLL_SECONDS = 0.5
PARSED_SECONDS = 600.0
FINAL = frozenset({"success", "failed"})
TWICE = frozenset({"GET", "PATCH"})


class AirflowApi:
    """A client for one user. Not thread-safe.

    :param url: address of the API server.
    :param user: name of the user.
    :param password: password of the user.
    :raises StackError: in every call, if Airflow refuses it.
    :raises requests.ConnectionError: in every call, if Airflow does not answer.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        self._session = requests.Session()
        # On a machine with too much to do, the server has given no answer for a minute. These said twice are the same,
        # and so is a log-in.
        once_more = Retry(total=None, connect=0, read=4, redirect=0, status=0, other=0, allowed_methods=TWICE)
        self._session.mount(f"{url}/", HTTPAdapter(max_retries=once_more))
        self._session.mount(f"{url}/auth/", HTTPAdapter(max_retries=once_more.new(allowed_methods=None)))

    def healthy(self) -> bool:
        """Return whether the log-in works and database, scheduler, triggerer and DAG processor are healthy."""
        try:
            # The first call to the execution API initialises it, which takes longer than a task would wait.
            _checked(self._session.get(f"{self.url}/execution/health", timeout=TIMEOUT))
            health = self.call("GET", "monitor/health")
        except (StackError, requests.RequestException):
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until a DAG has been parsed.

        :raises StackError: it is not parsed after 600 s; the error has the import errors of the DAGs folder.
        """
        deadline = time.monotonic() + PARSED_SECONDS
        while not any(dag["dag_id"] == dag_id for dag in self._dags_like(dag_id)):
            if time.monotonic() > deadline:
                errors = [each["stack_trace"] for each in self.call("GET", "importErrors")["import_errors"]]
                raise StackError(
                    f"Airflow has no DAG {dag_id!r} after {PARSED_SECONDS:.0f} s.",
                    next_step="\n".join(errors) or "Check its name.",
                )
            time.sleep(POLL_SECONDS)

    def _dags_like(self, dag_id: str) -> list[dict[str, Any]]:
        # Asked by its name: a list of all comes in pages.
        found: list[dict[str, Any]] = self.call("GET", "dags", exclude_stale=True, dag_id_pattern=dag_id)["dags"]
        return found

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG, so that its runs are scheduled."""
        self.call("PATCH", f"dags/{dag_id}", json={"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """Pause a DAG, so that no more runs are scheduled."""
        self.call("PATCH", f"dags/{dag_id}", json={"is_paused": True})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a DAG run, like the button in the UI, and return its id. The DAG must not be paused."""
        run = self.call("POST", f"dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": dict(conf or {})})
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait_for_run(self, dag_id: str, run_id: str, seconds: float = 600.0) -> str:
        """Wait until a run has ended and return its state, success or failed.

        :raises StackError: it has not ended after `seconds`; the error has the states of its tasks.
        """
        deadline = time.monotonic() + seconds
        while (state := self.run_state(dag_id, run_id)) not in FINAL:
            if time.monotonic() > deadline:
                raise StackError(
                    f"Run {run_id} of {dag_id} is {state} after {seconds:.0f} s: {self.task_states(dag_id, run_id)}.",
                    next_step=f"Open {self.url}/dags/{dag_id}/runs/{run_id}",
                )
            time.sleep(POLL_SECONDS)
        return state

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run as Airflow's API has them: task_id, state, try_number, pid, …"""
        found: list[dict[str, Any]] = self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")[
            "task_instances"
        ]
        return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Return the states of a run's tasks, by task id. None: the task is not scheduled yet."""
        return {task["task_id"]: task["state"] for task in self.tasks(dag_id, run_id)}

    def clear(self, dag_id: str, run_id: str, task_ids: Iterable[str], *, downstream: bool = True) -> None:
        """Clear tasks of a run in any state, so that they run again.

        :param downstream: clear the tasks downstream of them too; default True.
        """
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "include_downstream": downstream,
        }
        self.call("POST", f"dags/{dag_id}/clearTaskInstances", json=body)

    def task_log(self, dag_id: str, run_id: str, task_id: str, attempt: int | None = None) -> str:
        """Return the log of a task's last try, or of another attempt (from 1): each event, and with what it failed."""
        if attempt is None:
            tasks = self.tasks(dag_id, run_id)
            attempt = next(task["try_number"] for task in tasks if task["task_id"] == task_id)
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
        content = self.call("GET", path, full_content=True)["content"]
        return "\n".join(each if isinstance(each, str) else _line(each) for each in content)

    def call(self, method: str, path: str, *, json: object = None, **query: str | int) -> dict[str, Any]:
        """Call `/api/v2/PATH` and return the decoded answer.

        :raises StackError: Airflow refuses the call; the error has its answer.
        """
        if "Authorization" not in self._session.headers:
            answer = self._session.post(f"{self.url}/auth/token", json=self._login, timeout=TIMEOUT)
            self._session.headers["Authorization"] = f"Bearer {_checked(answer)['access_token']}"
        url, seconds = f"{self.url}/api/v2/{path}", TIMEOUT if method in TWICE else LONG_TIMEOUT
        return _checked(self._session.request(method, url, json=json, params=query, timeout=seconds))


def _line(event: Mapping[str, Any]) -> str:
    errors = (f"{each['exc_type']}: {each['exc_value']}" for each in event.get("error_detail") or ())
    return "\n".join((str(event.get("event")), *errors))


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
