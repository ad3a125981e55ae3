"""Airflow's REST API, as far as a person needs it to run an upgrade: log in, trigger a DAG, look at its run."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.model.errors import StreamError

TIMEOUT_SECONDS = 30
# Airflow's tokens live for a day by default; a run of the demo is far shorter.
_ENDED = ("success", "failed")


@dataclass
class Airflow:
    """One Airflow and one user of it."""

    url: str
    user: str
    password: str = field(repr=False)
    _token: str = field(default="", repr=False)

    def wait_for_dag(self, dag: str, seconds: float = 120) -> None:
        """Wait until Airflow has parsed a DAG; raise StreamError, with its import errors, when it does not."""
        deadline = time.monotonic() + seconds
        while (found := self._call("GET", f"/api/v2/dags/{dag}", missing=None)) is None:
            if time.monotonic() > deadline:
                errors = self._call("GET", "/api/v2/importErrors")["import_errors"]
                why = "; ".join(str(error["stack_trace"]).strip().splitlines()[-1] for error in errors)
                raise StreamError(f"Airflow has no DAG {dag}. {why}".strip(), todo="Look at the DAG processor's log.")
            time.sleep(1)
        if found["is_paused"]:
            self._call("PATCH", f"/api/v2/dags/{dag}?update_mask=is_paused", {"is_paused": False})

    def trigger(self, dag: str, conf: Mapping[str, Any]) -> str:
        """Start a run of a DAG with the values of its form, and return the run's id."""
        run = self._call("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": dict(conf)})
        return str(run["dag_run_id"])

    def ended(self, dag: str, run: str) -> bool:
        """Whether a run has come to its end, good or bad."""
        return self._call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}")["state"] in _ENDED

    def busy_tasks(self, dag: str, run: str) -> list[str]:
        """Return the tasks of a run that are under way now, waiting ones included."""
        tasks = self._call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return [task["task_id"] for task in tasks if task["state"] in ("running", "deferred", "queued")]

    def _call(self, method: str, path: str, body: Any = None, *, missing: Any = ...) -> Any:
        if not self._token:
            login = {"username": self.user, "password": self.password}
            self._token = self._send("POST", "/auth/token", login)["access_token"]
        try:
            return self._send(method, path, body)
        except urllib.error.HTTPError as error:
            if error.code == 404 and missing is not ...:
                return missing
            raise StreamError(
                f"Airflow answered {error.code} to {method} {path}: {error.read().decode(errors='replace')[:500]}",
                todo="Look at the API server's log.",
                status=error.code,
            ) from error

    def _send(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url.rstrip("/") + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)
