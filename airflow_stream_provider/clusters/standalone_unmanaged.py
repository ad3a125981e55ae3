"""A job on a standalone cluster that this provider has not started: a driver of the cluster, or an application whose
driver runs elsewhere (client mode).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.bounded_http import Unanswered
from airflow_stream_provider.clusters.cluster import DriverState, Remains, UnmanagedView
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.master_api import Master
from airflow_stream_provider.clusters.whose import LOG_CONF
from airflow_stream_provider.clusters.worker_hosts import WorkerHosts
from airflow_stream_provider.clusters.workers import ask_all, executors_left, launch_command
from airflow_stream_provider.lifecycle.errors import ClusterError

_DRIVER = re.compile(r"driver-\d+-\d+")
_APPLICATION = re.compile(r"app-\d+-\d+")
# As `lifecycle.ids.application_name` ends; users name their applications otherwise.
_OURS = re.compile(r".+ \[[a-z0-9_-]+\]( [0-9a-f]{8})?")
_DRIVERS = {
    "SUBMITTED": DriverState.QUEUED,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.FINISHED,
    "KILLED": DriverState.KILLED,
    "FAILED": DriverState.FAILED,
}
_APPLICATIONS = {
    "WAITING": DriverState.QUEUED,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.FINISHED,
    "KILLED": DriverState.KILLED,
    "FAILED": DriverState.FAILED,
}


class StandaloneUnmanaged:
    """Implements `UnmanagedJob`; the id of a driver or of an application tells which it is.

    A driver's command line, at the head of its log on the worker, says whose it is; without that it is not known.

    The master does not say which application is a driver's own. That ends with it, so no worker may have an executor of
    any application that has ended. Those of one that the master still calls active are not looked at: they may belong
    to any driver. Its own is active for the moment in which the master has not noticed yet that its connection is gone;
    before a driver follows, the checkpoint's logs have to stand still for much longer.
    """

    def __init__(self, masters: Masters, hosts: WorkerHosts, id: str) -> None:
        if not _DRIVER.fullmatch(id) and not _APPLICATION.fullmatch(id):
            raise ClusterError(
                f"{id} is no id of a Spark standalone cluster.",
                next_step="Give the submission's id (driver-…) or, of a job in client mode, the application's (app-…): "
                "the master's page has both.",
                job=id,
            )
        self._masters = masters
        self._hosts = hosts
        self._id = id
        self._is_driver = bool(_DRIVER.fullmatch(id))

    def look(self) -> UnmanagedView:
        """Ask the master about it, and every worker about its executors."""
        master = api.find_master(self._masters)
        return self._driver(master) if self._is_driver else self._application(master)

    def end(self) -> None:
        """Ask the master to kill the driver, or to end the application: its SparkContext is then stopped by Spark."""
        master = api.find_master(self._masters)
        if self._is_driver:
            answer = api.ask(master, "kill", self._id)
            message = str(answer.get("message", ""))
            if not answer.get("success") and "already finished" not in message:
                raise _refused(self._id, api.first_line(message))
            return
        try:
            api.kill_application(master, self._id)
        except Unanswered as error:
            raise _refused(self._id, error.reason) from None

    def _driver(self, master: Master) -> UnmanagedView:
        driver = master.driver(self._id)
        if driver is None:
            return UnmanagedView(self._id, DriverState.LOST)
        # ERROR and RELAUNCHING say that the master has lost it: it may run still.
        state = _DRIVERS.get(str(driver["state"]), DriverState.LOST)
        active = {app["id"] for app in master.active_apps}
        alive = [] if state.terminal else [f"Driver {self._id} is {driver['state']}."]
        left, lost = self._executors(master, lambda id, name: id not in active)
        words = launch_command(master, self._hosts, driver)
        ours = words is not None and (any(LOG_CONF in word for word in words) or "--deployment" in words)
        managed = None if words is None else ours
        about = f"driver {self._id} ({driver['mainclass']}, worker {driver['worker']})"
        return UnmanagedView(self._id, state, about, Remains((*alive, *left), lost), managed)

    def _application(self, master: Master) -> UnmanagedView:
        known = (*master.active_apps, *master.completed_apps)
        app = next((each for each in known if each["id"] == self._id), None)
        if app is None:
            return UnmanagedView(self._id, DriverState.LOST)
        state = _APPLICATIONS.get(str(app["state"]), DriverState.LOST)
        alive = [] if state.terminal else [f"Application {self._id} is {app['state']}."]
        left, lost = self._executors(master, lambda id, name: id == self._id)
        about = f"application {self._id} ({app['name']}) of {app.get('user', 'an unknown user')}"
        managed = bool(_OURS.fullmatch(str(app["name"])))
        return UnmanagedView(self._id, state, about, Remains((*alive, *left), lost), managed)

    def _executors(self, master: Master, ours: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the executors that workers list, and those that may run on workers that the master has lost."""
        workers: list[Mapping[str, Any]] = list(master.workers.values())
        left = [] if workers else ["No worker is registered with the master."]
        answers = ask_all(lambda worker: executors_left(worker, self._hosts, ours), workers)
        for worker, found in zip(workers, answers, strict=True):
            left += [f"Worker {worker['id']} was not reached in time."] if found is None else found
        lost = (f"Worker {each['id']} is {each['state']}, and may run executors." for each in master.lost_workers)
        return tuple(left), tuple(lost)


def _refused(id: str, why: str) -> ClusterError:
    return ClusterError(
        f"The Spark master did not end {id}: {why}.",
        next_step="Try again, and read the master's log; spark.ui.killEnabled has to be true for an application.",
        job=id,
    )
