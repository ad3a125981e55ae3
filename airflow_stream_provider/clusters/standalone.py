"""Run drivers on the workers of a Spark standalone cluster, over the master's REST submission API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.capacity import FreeResources, ResourceRequest
from airflow_stream_provider.clusters.cluster import DriverState, FoundDrivers, SubmitUnclear
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.job import Job, names_deployment
from airflow_stream_provider.clusters.master_api import Master
from airflow_stream_provider.clusters.rest_properties import MAIN_CLASS, create_submission_request, driver_conf
from airflow_stream_provider.lifecycle.errors import ClusterError

# Seconds by which the clocks of Airflow's machines may differ. The master's clock is read from its answers.
CLOCK_SLACK = 60.0
# Seconds for which `submit` searches for a driver after a submission without an answer.
UNCLEAR_SECONDS = 15.0
# Bytes of a driver's stderr to read. Its first line is the launch command, and class paths can be long.
_HEAD = 256 * 1024
_PARALLEL_REQUESTS = 16

_STATES = {
    "SUBMITTED": DriverState.QUEUED,
    "RELAUNCHING": DriverState.QUEUED,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.FINISHED,
    "KILLED": DriverState.KILLED,
    "FAILED": DriverState.FAILED,
    "ERROR": DriverState.FAILED,
}


class StandaloneCluster:
    """Drivers on the workers of a standalone cluster; implements `Cluster`.

    :param masters: the addresses of the cluster's masters.
    """

    def __init__(self, masters: Masters) -> None:
        self._masters = masters

    def check(self, job: Job) -> None:
        """Check that the live workers have room for the job's driver and all its executors; see `Cluster.check`."""
        requested = ResourceRequest.from_conf(driver_conf(job, self._masters.url))
        master = api.find_master(self._masters)
        workers = list(master.workers.values())
        free = [FreeResources(worker["coresfree"], worker["memoryfree"]) for worker in workers]
        if requested.fits(free):
            return
        cores, memory = sum(worker.cores for worker in free), sum(worker.memory for worker in free)
        where = "1 worker" if len(workers) == 1 else f"{len(workers)} workers"
        holders = _holders(master)
        raise ClusterError(
            f"The cluster has no room for {job.app_name}: {cores} cores and {memory} MiB are free on {where}; "
            f"the job asks for {requested}." + (f" In use: {', '.join(holders)}." if holders else ""),
            next_step="Set spark.cores.max for every application, stop one, ask for less in `conf`, or add a worker. "
            "Nothing was submitted, and no running application was touched.",
            free_cores=cores,
            free_memory=memory,
            asked=str(requested),
        )

    def submit(self, job: Job) -> str:
        """Start the job's driver on a worker and return its id, such as ``driver-20261121023732-0002``.

        If the master does not answer, search for the driver for up to 15 s before raising SubmitUnclear.
        """
        request = create_submission_request(job, self._masters.url)
        since = time.time()
        master = api.find_master(self._masters)
        try:
            return api.create(master, request)
        except SubmitUnclear:
            found = self._look_for(job.deployment, since)
            if found is None:
                raise
            return found

    def find(self, deployment: str, since: float) -> FoundDrivers:
        """Return the deployment's drivers, recognised by the launch command in the first line of their stderr.

        The master's API does not show a driver's arguments. The worker serves the driver's log, and writes its first
        line before it starts the driver.
        """
        master = api.find_master(self._masters)
        oldest = since + master.clock_ahead - CLOCK_SLACK

        def belongs(driver: Mapping[str, Any]) -> bool | None:
            return _belongs(master, driver, deployment)

        recent = [driver for driver in master.completed_drivers if _submitted(driver) >= oldest]
        with ThreadPoolExecutor(_PARALLEL_REQUESTS) as pool:
            active = [*zip(master.active_drivers, pool.map(belongs, master.active_drivers), strict=True)]
            ended = [driver["id"] for driver, yes in zip(recent, pool.map(belongs, recent), strict=True) if yes]
        alive = [driver["id"] for driver, yes in active if yes]
        unclear = [driver["id"] for driver, yes in active if yes is None and _submitted(driver) >= oldest]
        return FoundDrivers(tuple(alive), tuple(ended), certain=not unclear)

    def status(self, submission: str) -> DriverState:
        """Return the driver's state as the master reports it."""
        try:
            return _state(api.ask(api.find_master(self._masters), "status", submission))
        except ClusterError:
            return DriverState.UNKNOWN

    def kill(self, submission: str) -> None:
        """Ask the master to kill the driver.

        The worker sends SIGTERM, and SIGKILL after spark.worker.driverTerminateTimeout (10 s). The master reports
        KILLED once the JVM is gone. The runtime ends the driver's Python process together with its JVM.

        :raises ClusterError: the master does not answer, or refuses.
        """
        answer = api.ask(api.find_master(self._masters), "kill", submission)
        message = str(answer.get("message", ""))
        if not answer.get("success") and "does not exist" not in message:
            raise ClusterError(
                f"The Spark master refused to kill {submission}: {api.first_line(message)}.",
                next_step="Try again, and read the master's log.",
                submission=submission,
            )

    def remains(self, submission: str, deployment: str) -> tuple[str, ...]:
        """Return what the master and the workers still list of the driver, its application and its executors."""
        try:
            master = api.find_master(self._masters)
        except ClusterError as error:
            return (error.message,)
        mark = f"[{deployment}]"
        left = [f"Driver {d['id']} is {d['state']}." for d in master.active_drivers if d["id"] == submission]
        left += [f"Application {a['id']} is {a['state']}." for a in master.active_apps if mark in a["name"]]
        workers = list(master.workers.values())
        if not workers:
            # After a restart the master knows nothing until its workers register; it then kills what they run.
            left.append("No worker is registered with the master.")
        with ThreadPoolExecutor(_PARALLEL_REQUESTS) as pool:
            for found in pool.map(lambda worker: _executors_left(worker, mark), workers):
                left += found
        return tuple(left)

    def gone(self, submission: str, deployment: str) -> bool:
        """Return whether the master and all live workers list no driver, application or executor of it any more."""
        return not self.remains(submission, deployment)

    def links(self, submission: str) -> Mapping[str, str]:
        """Return links to the driver's log on its worker and to the master's web UI."""
        try:
            master = api.find_master(self._masters)
        except ClusterError:
            return {}
        links = {"Spark master": master.ui}
        for driver in (*master.active_drivers, *master.completed_drivers):
            worker = master.workers.get(driver["worker"])
            if driver["id"] == submission and worker:
                links["driver log"] = api.driver_log_url(worker, submission)
        return links

    def _look_for(self, deployment: str, since: float) -> str | None:
        deadline = time.monotonic() + UNCLEAR_SECONDS
        while time.monotonic() < deadline:
            try:
                found = self.find(deployment, since)
            except ClusterError:
                found = FoundDrivers(certain=False)
            if found.alive or found.ended:
                return (found.alive or found.ended)[0]
            time.sleep(1)
        return None


def _state(answer: Mapping[str, Any]) -> DriverState:
    if not answer.get("success"):
        # "Not found" has neither a state nor a message. A master that has just stepped down sends a message.
        return DriverState.UNKNOWN if answer.get("message") else DriverState.LOST
    return _STATES.get(str(answer.get("driverState")), DriverState.UNKNOWN)


def _submitted(driver: Mapping[str, Any]) -> float:
    return int(driver["starttime"]) / 1000


def _belongs(master: Master, driver: Mapping[str, Any], deployment: str) -> bool | None:
    """Return whether a driver belongs to the deployment, None if that cannot be read now."""
    if driver["mainclass"] != MAIN_CLASS:
        return False
    worker = master.workers.get(driver["worker"])
    if worker is None:
        return None
    try:
        head = api.driver_log_head(worker, driver["id"], _HEAD)
    except requests.RequestException:
        return None
    command, end, _ = head.partition("\n")
    if not end or not command.startswith("Launch Command: "):
        return None
    # Spark's DriverRunner.runDriver writes every word in quotation marks, with one space between.
    words = command.removeprefix("Launch Command: ").strip('"').split('" "')
    return names_deployment(words[words.index(MAIN_CLASS) :] if MAIN_CLASS in words else [], deployment)


def _executors_left(worker: Mapping[str, Any], mark: str) -> list[str]:
    try:
        executors = api.worker_state(worker).get("executors", [])
    except requests.RequestException:
        return [f"Worker {worker['id']} does not answer at {worker['webuiaddress']}."]
    return [
        f"Executor {executor['id']} of {executor['appid']} is alive on worker {worker['id']}."
        for executor in executors
        if mark in executor["appdesc"]["name"]
    ]


def _holders(master: Master) -> list[str]:
    """Return which applications and drivers use the cluster's cores, the largest first.

    Applications without spark.cores.max are marked, because they take all free cores.
    """
    unbounded = set()
    for worker in master.workers.values():
        try:
            executors = api.worker_state(worker).get("executors", [])
        except requests.RequestException:
            continue
        unbounded |= {e["appid"] for e in executors if not e["appdesc"].get("cores")}
    apps = sorted(master.active_apps, key=lambda app: -app["cores"])
    found = [
        f"{app['name']} ({app['id']}) {app['cores']} cores{' without spark.cores.max' * (app['id'] in unbounded)}"
        for app in apps
        if app["cores"]
    ]
    drivers = [driver for driver in master.active_drivers if driver["worker"] != "None"]
    if drivers:
        found.append(f"{len(drivers)} drivers {sum(driver['cores'] for driver in drivers)} cores")
    queued = len(master.active_drivers) - len(drivers) + sum(app["state"] == "WAITING" for app in apps)
    return found + ([f"{queued} more are waiting"] if queued else [])
