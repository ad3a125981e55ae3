"""HTTP calls to a standalone cluster.

To the masters: the JSON of the web UI and the REST submission API, with the connection's credentials. To the workers:
their JSON and log pages, without.

`spark-submit` refuses Python applications in cluster mode on a standalone cluster. The REST submission API runs any
main class on a worker. `org.apache.spark.deploy.PythonRunner` is the class with which spark-submit itself starts
Python drivers. It takes local files only. `SparkSubmit` itself, in client mode on the worker, downloads a launcher that
is given by URL, and goes on with `PythonRunner` in the same process.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from airflow_stream_provider.clusters.bounded_http import Answer, Unanswered, WorkerHosts, ui_settings
from airflow_stream_provider.clusters.bounded_http import ask as send
from airflow_stream_provider.clusters.cluster import DriverState, SubmitUnclear
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.spark_defaults import When, several
from airflow_stream_provider.clusters.spark_sizes import ResourceRequest
from airflow_stream_provider.lifecycle.errors import ClusterError

TIMEOUT = 10.0  # seconds for a whole request; a person may be waiting for the result
# Bytes. A master's answer has every worker and the last 200 drivers and applications.
_MASTER_LIMIT = 32 * 1024 * 1024
_WORKER_LIMIT = 4 * 1024 * 1024
STATES = {
    "SUBMITTED": DriverState.QUEUED,
    "WAITING": DriverState.QUEUED,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.FINISHED,
    "KILLED": DriverState.KILLED,
    "FAILED": DriverState.FAILED,
}
"""Of drivers and applications, as the master says them."""
OUT_OF_CONTACT = ("ERROR", "RELAUNCHING")
"""The master's words for a driver when it loses its worker (Master.removeWorker), or when no worker has claimed it
after a fail-over (Master.completeRecovery; its worker is then "None"). It may run there still, also when the worker is
back: only then is it told to kill it. One that could not be started is ERROR, too, and looks the same. One that was
killed in the queue is KILLED without a worker: it never ran."""


@dataclass(frozen=True)
class Master:
    """The master that is ALIVE.

    :param rest: address of its REST submission API.
    :param ui: address of its web UI.
    :param state: its state as JSON, as Spark's `JsonProtocol.writeMasterState` writes it.
    :param clock_ahead: how far its clock is ahead of ours, in seconds; exact to one second.
    :param authorization: the header with which it is asked.
    """

    rest: str
    ui: str
    state: Mapping[str, Any]
    clock_ahead: float
    authorization: str = field(default="", repr=False)

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
    def completed_apps(self) -> list[dict[str, Any]]:
        """The last applications that have ended, as many as spark.deploy.retainedApplications says (default 200)."""
        return list(self.state.get("completedapps", ()))

    @property
    def workers(self) -> dict[str, dict[str, Any]]:
        """The live workers, by id."""
        return {worker["id"]: worker for worker in self.state.get("workers", ()) if worker["state"] == "ALIVE"}

    @property
    def lost_workers(self) -> list[dict[str, Any]]:
        """The workers that the master lists but has no contact with: any of them may run something still.

        That their `coresused` is 0 proves nothing. The master counts down when it sends a kill, which may not arrive,
        and begins at 0 after a fail-over.
        """
        return [worker for worker in self.state.get("workers", ()) if worker["state"] != "ALIVE"]

    def driver(self, submission: str) -> dict[str, Any] | None:
        """A driver that waits, runs or has ended, or None if the master does not know it."""
        known = (*self.active_drivers, *self.completed_drivers)
        return next((driver for driver in known if driver["id"] == submission), None)


def find_master(masters: Masters) -> Master:
    """Return the master that is ALIVE.

    :raises ClusterError: no master is. The message says what each of them answered.
    """
    answers = []
    for rest, ui in zip(masters.rest, masters.ui, strict=True):
        try:
            answer = send(
                "GET", f"{ui}/json/", seconds=TIMEOUT, limit=_MASTER_LIMIT, authorization=masters.authorization
            )
            state = answer.json()
            status = state["status"]
        except Unanswered as error:
            answers.append(f"{ui} {error.reason}")
            continue
        except KeyError:
            answers.append(f"{ui} is not a Spark master's web UI")
            continue
        if status == "ALIVE":
            return Master(rest, ui, state, answer.clock_ahead, masters.authorization)
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
    try:
        answer = _rest(master, "POST", "create", request)
    except Unanswered as error:
        if error.sent:
            raise _unclear(master) from None
        raise _no_rest(master, error) from None
    body = _body(master, answer)
    if body.get("success") and body.get("submissionId"):
        return str(body["submissionId"])
    raise ClusterError(
        f"The Spark master refused the driver: {first_line(body.get('message')) or f'HTTP {answer.status}'}.",
        next_step="Read the master's log.",
        master=master.rest,
    )


def check_rest(master: Master) -> None:
    """Raise ClusterError unless the master's REST submission API answers, and takes the connection's credentials."""
    try:
        answer = _rest(master, "GET", "status/none")
    except Unanswered as error:
        raise _no_rest(master, error) from None
    _body(master, answer)


def kill(master: Master, submission: str) -> None:
    """Ask the master to kill a driver; one that has ended, or that it does not know, is no error.

    :raises ClusterError: the master does not answer, or refuses.
    """
    try:
        answer = _rest(master, "POST", f"kill/{quote(submission, safe='')}")
    except Unanswered as error:
        raise _no_rest(master, error) from None
    body = _body(master, answer)
    message = str(body.get("message", ""))
    if not body.get("success") and "does not exist" not in message:
        raise ClusterError(
            f"The Spark master refused to kill {submission}: {first_line(message)}.",
            next_step="Try again, and read the master's log.",
            submission=submission,
        )


def kill_application(master: Master, application: str) -> None:
    """Ask the master to end an application and its executors, as the button on its page does (spark.ui.killEnabled).

    :raises Unanswered: the master does not answer. Whether it does it is seen by what is left.
    """
    query = urlencode({"id": application, "terminate": "true"})
    url = f"{master.ui}/app/kill/?{query}"
    send("POST", url, seconds=TIMEOUT, limit=_MASTER_LIMIT, authorization=master.authorization)


def worker_state(worker: Mapping[str, Any], hosts: WorkerHosts) -> dict[str, Any]:
    """Return a worker's state as JSON, as Spark's `JsonProtocol.writeWorkerState` writes it.

    :raises ClusterError: the worker does not answer, or its page is on a host that is not allowed.
    """
    return _worker(worker, hosts, "/json/").json()


# A master's page has a table of its settings, and others of the same form.
_ROW = re.compile(r"<tr[^>]*>\s*<td[^>]{0,200}>(.{0,4000}?)</td>\s*<td[^>]{0,200}>(.{0,4000}?)</td>", re.DOTALL)
_BYTES = re.compile(r"==== Bytes \d+-\d+ of (\d+) of ")


def master_settings(master: Master) -> dict[str, str]:
    """Return the settings that a master was started with, by its page, on which Spark hides secrets.

    :raises Unanswered: it has no such page, as before Spark 4.0.
    """
    url = f"{master.ui}/environment/"
    page = send("GET", url, seconds=TIMEOUT, limit=_MASTER_LIMIT, authorization=master.authorization).text()
    rows = ([html.unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in row] for row in _ROW.findall(page))
    return {name: value for name, value in rows if name.startswith("spark.")}


_UI = re.compile(r'href="(https?://[^"]+)"[^>]*>\s*Application Detail UI')


def application_settings(master: Master, hosts: WorkerHosts, application: str) -> tuple[str, dict[str, str]]:
    """Return the version of Spark that an application runs on, and its settings, by the UI to which its page leads.

    :raises ClusterError: the master or the UI does not answer, or the UI is on a host that is not allowed.
    """
    page = f"{master.ui}/app/?{urlencode({'appId': application})}"
    text = send("GET", page, seconds=TIMEOUT, limit=_MASTER_LIMIT, authorization=master.authorization).text()
    found = _UI.search(text)
    if found is None:
        raise Unanswered(page, "names no Spark UI")
    url = html.unescape(found[1]).rstrip("/")
    address = hosts.address(url)
    return ui_settings(
        lambda path: send("GET", f"{url}/{path}", seconds=TIMEOUT, limit=_WORKER_LIMIT, address=address), application
    )


def executor_log_size(worker: Mapping[str, Any], hosts: WorkerHosts, application: str, executor: object) -> int:
    """Return how many bytes the log of an executor has, to which it writes now.

    :raises ClusterError: the worker does not answer, or its page is on a host that is not allowed.
    """
    query = urlencode({"appId": application, "executorId": executor, "logType": "stderr", "byteLength": 1})
    found = _BYTES.match(_worker(worker, hosts, f"/log/?{query}").text())
    return int(found[1]) if found else 0


def driver_log(worker: Mapping[str, Any], hosts: WorkerHosts, driver: str, name: str, length: int, **part: int) -> str:
    """Return the end of what a driver has written, or another part.

    :param name: ``stderr`` or ``stdout``.
    :param length: how many bytes.
    :param part: ``offset``, from the beginning; default: as far from the end as it is long.
    :raises ClusterError: the worker does not answer, or its page is on a host that is not allowed.
    """
    query = urlencode({"driverId": driver, "logType": name, "byteLength": length, **part})
    # Spark's LogPage.renderLog writes one line of its own before the text.
    return _worker(worker, hosts, f"/log/?{query}").text().partition("\n")[2]


def driver_log_url(worker: Mapping[str, Any], driver: str) -> str:
    """Return the URL of the page that shows a driver's stderr."""
    return f"{worker['webuiaddress']}/logPage/?{urlencode({'driverId': driver, 'logType': 'stderr'})}"


def first_line(text: object) -> str:
    """Return the first useful line of a master's message, without Java's stack trace."""
    lines = [line.strip() for line in str(text or "").splitlines() if not line.startswith("Exception from the cluster")]
    return lines[0].rstrip(".") if lines else ""


def _rest(master: Master, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
    url = f"{master.rest}/v1/submissions/{path}"
    return send(method, url, seconds=TIMEOUT, limit=_MASTER_LIMIT, authorization=master.authorization, body=body)


def _worker(worker: Mapping[str, Any], hosts: WorkerHosts, path: str) -> Answer:
    url = str(worker["webuiaddress"]).rstrip("/")
    return send("GET", url + path, seconds=TIMEOUT, limit=_WORKER_LIMIT, address=hosts.address(url))


def _body(master: Master, answer: Answer) -> dict[str, Any]:
    if answer.status in (401, 403):
        raise ClusterError(
            f"The Spark master at {master.rest} refused the connection's credentials: HTTP {answer.status}.",
            next_step="Put the token into the connection's password (for basic authentication, the login, too).",
            master=master.rest,
        )
    try:
        return answer.json(any_status=True)
    except Unanswered as error:
        raise _no_rest(master, error) from None


def _no_rest(master: Master, error: Unanswered) -> ClusterError:
    return ClusterError(
        f"The Spark master at {master.ui} is up, but its REST submission API is not available: "
        f"{master.rest} {error.reason}.",
        next_step="Set spark.master.rest.enabled=true on the master, or `rest_port` or `rest_url` in the connection.",
        master=master.rest,
    )


def _unclear(master: Master) -> SubmitUnclear:
    return SubmitUnclear(
        f"The Spark master at {master.rest} did not answer, so it may or may not have accepted the driver.",
        next_step="Nothing to do: the driver is searched for on the cluster before anything is submitted again.",
        master=master.rest,
    )


MAIN_CLASS = "org.apache.spark.deploy.PythonRunner"
FETCHING_CLASS = "org.apache.spark.deploy.SparkSubmit"


def create_submission_request(job: Job, master_url: str, workers: int = 1) -> dict[str, Any]:
    """Return the body of a ``CreateSubmissionRequest``.

    :param master_url: Spark's master URL, such as ``spark://host:7077``.
    :param workers: how many workers the cluster has.
    :raises SecretInConf: the job's conf holds a secret.
    """
    conf = driver_conf(job, master_url, workers)
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.0.0",  # required, but without effect
        "appResource": "",
        "mainClass": FETCHING_CLASS if job.is_fetched else MAIN_CLASS,
        "appArgs": _submit_arguments(job, conf) if job.is_fetched else _runner_arguments(job, conf),
        "sparkProperties": conf,
        "environmentVariables": dict(job.environment),
    }


def _runner_arguments(job: Job, conf: dict[str, str]) -> list[str]:
    """Return the arguments of PythonRunner: script, Python path, arguments of the script."""
    return [job.launcher, conf["spark.submit.pyFiles"], *job.arguments]


def _submit_arguments(job: Job, conf: dict[str, str]) -> list[str]:
    """Return the arguments of SparkSubmit, as a person would give them to spark-submit on the worker.

    It also reads the worker's spark-defaults.conf: without ``--conf`` that would replace the job's own settings.
    """
    settings = {**conf, "spark.submit.deployMode": "client"}
    words = [word for key, value in settings.items() if value for word in ("--conf", f"{key}={value}")]
    return ["--master", conf["spark.master"], "--deploy-mode", "client", *words, job.launcher, *job.arguments]


def driver_conf(job: Job, master_url: str, workers: int = 1) -> dict[str, str]:
    """Return the Spark conf of a driver in cluster mode: the job's, with master, deploy mode and Python files set.

    :raises SecretInConf: the job's conf holds a secret.
    """
    # Two executors on one host would not help: Spark would wait for another host.
    hosts = ResourceRequest.from_conf(job.conf).hosts(workers)
    conf = job.properties(When.STANDALONE, *several(hosts, job.conf))
    return {**job.with_files(conf), "spark.master": master_url, "spark.submit.deployMode": "cluster"}
