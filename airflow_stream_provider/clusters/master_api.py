"""HTTP calls to a standalone cluster.

To the masters: the JSON of the web UI and the REST submission API. To the workers: their JSON and log pages.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import requests

from airflow_stream_provider.clusters.cluster import SubmitUnclear
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.lifecycle.errors import ClusterError

TIMEOUT = 5.0  # seconds to connect, and again to answer; a person may be waiting for the result


@dataclass(frozen=True)
class Master:
    """The master that is ALIVE.

    :param rest: address of its REST submission API.
    :param ui: address of its web UI.
    :param state: its state as JSON, as Spark's `JsonProtocol.writeMasterState` writes it.
    :param clock_ahead: how far its clock is ahead of ours, in seconds; exact to one second.
    """

    rest: str
    ui: str
    state: Mapping[str, Any]
    clock_ahead: float

    @property
    def active_drivers(self) -> list[dict[str, Any]]:
        """The drivers that wait or run."""
        return list(self.state.get("activedrivers", ()))

    @property
    def completed_drivers(self) -> list[dict[str, Any]]:
        """The last drivers that have ended, as many as spark.deploy.retainedDrivers says (default 200)."""
        return list(self.state.get("completeddrivers", ()))

    @property
    def active_apps(self) -> list[dict[str, Any]]:
        """The applications that wait or run."""
        return list(self.state.get("activeapps", ()))

    @property
    def workers(self) -> dict[str, dict[str, Any]]:
        """The live workers, by id."""
        return {worker["id"]: worker for worker in self.state.get("workers", ()) if worker["state"] == "ALIVE"}


def find_master(masters: Masters) -> Master:
    """Return the master that is ALIVE.

    :raises ClusterError: no master is. The message says what each of them answered.
    """
    answers = []
    for rest, ui in zip(masters.rest, masters.ui, strict=True):
        try:
            response = _get(f"{ui}/json/")
            state = response.json()
            status = state["status"]
        except requests.RequestException as error:  # also if the body is not JSON
            answers.append(f"{ui} {_reason(error)}")
            continue
        except (KeyError, TypeError):
            answers.append(f"{ui} is not a Spark master's web UI")
            continue
        if status == "ALIVE":
            return Master(rest, ui, state, _clock_ahead(response))
        answers.append(f"{ui} is {status}")
    raise ClusterError(
        f"No Spark master of {masters.url} answers: {'; '.join(answers)}.",
        next_step="Start the master, or correct the host and `master_ui` (its web UI's address) in the connection.",
        master=masters.url,
    )


def create(master: Master, request: Mapping[str, Any]) -> str:
    """Submit a driver, with a single request, and return the driver's id.

    :raises SubmitUnclear: the request was sent, but no answer came.
    :raises ClusterError: the request could not be sent, or the master refused it.
    """
    url = f"{master.rest}/v1/submissions/create"
    try:
        answer = requests.post(url, json=request, timeout=TIMEOUT)
    except requests.ConnectTimeout as error:
        raise _no_rest(master, error) from None
    except requests.ConnectionError as error:
        if _refused(error):
            raise _no_rest(master, error) from None
        raise _unclear(master) from None
    except requests.RequestException:
        raise _unclear(master) from None
    body = _body(master, answer)
    if body.get("success") and body.get("submissionId"):
        return str(body["submissionId"])
    raise ClusterError(
        f"The Spark master refused the driver: {first_line(body.get('message')) or f'HTTP {answer.status_code}'}.",
        next_step="Read the master's log.",
        master=master.rest,
    )


def ask(master: Master, verb: str, submission: str) -> dict[str, Any]:
    """Send a request about one driver and return the answer.

    :param verb: ``status`` or ``kill``.
    :raises ClusterError: the master does not answer.
    """
    url = f"{master.rest}/v1/submissions/{verb}/{quote(submission, safe='')}"
    try:
        answer = requests.request("GET" if verb == "status" else "POST", url, timeout=TIMEOUT)
    except requests.RequestException as error:
        raise _no_rest(master, error) from None
    return _body(master, answer)


def worker_state(worker: Mapping[str, Any]) -> dict[str, Any]:
    """Return a worker's state as JSON, as Spark's `JsonProtocol.writeWorkerState` writes it.

    :raises requests.RequestException: the worker does not answer.
    """
    state: dict[str, Any] = _get(f"{worker['webuiaddress']}/json/").json()
    return state


def driver_log_head(worker: Mapping[str, Any], driver: str, length: int) -> str:
    """Return the beginning of a driver's stderr.

    :param length: how many bytes.
    :raises requests.RequestException: the worker does not answer.
    """
    parameters = {"driverId": driver, "logType": "stderr", "offset": 0, "byteLength": length}
    text = _get(f"{worker['webuiaddress']}/log/", parameters).text
    # Spark's LogPage.renderLog writes one line of its own before the text.
    return text.partition("\n")[2]


def driver_log_url(worker: Mapping[str, Any], driver: str) -> str:
    """Return the URL of the page that shows a driver's stderr."""
    return f"{worker['webuiaddress']}/logPage/?driverId={driver}&logType=stderr"


def first_line(text: object) -> str:
    """Return the first useful line of a master's message, without Java's stack trace."""
    lines = [line.strip() for line in str(text or "").splitlines() if not line.startswith("Exception from the cluster")]
    return lines[0].rstrip(".") if lines else ""


def _get(url: str, parameters: Mapping[str, Any] | None = None) -> requests.Response:
    response = requests.get(url, params=parameters, timeout=TIMEOUT)
    response.raise_for_status()
    return response


def _body(master: Master, answer: requests.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except requests.JSONDecodeError as error:
        raise _no_rest(master, error) from None
    return body if isinstance(body, dict) else {}


def _no_rest(master: Master, error: requests.RequestException) -> ClusterError:
    return ClusterError(
        f"The Spark master at {master.ui} is up, but its REST submission API is not available: "
        f"{master.rest} {_reason(error)}.",
        next_step="Set spark.master.rest.enabled=true on the master, or `rest_port` or `rest_url` in the connection.",
        master=master.rest,
    )


def _unclear(master: Master) -> SubmitUnclear:
    return SubmitUnclear(
        f"The Spark master at {master.rest} did not answer, so it may or may not have accepted the driver.",
        next_step="Nothing to do: the driver is searched for on the cluster before anything is submitted again.",
        master=master.rest,
    )


def _refused(error: requests.ConnectionError) -> bool:
    # requests wraps urllib3's MaxRetryError. Its reason tells whether the connection was ever made.
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return type(reason).__name__ in ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError")


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return f"did not answer within {TIMEOUT:.0f} s"
    if isinstance(error, requests.JSONDecodeError):
        return "did not answer with JSON"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"answered HTTP {error.response.status_code}"
    return "cannot be reached"


def _clock_ahead(response: requests.Response) -> float:
    date = response.headers.get("Date")
    return parsedate_to_datetime(date).timestamp() - time.time() if date else 0.0
