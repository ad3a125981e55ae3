"""Run drivers on the workers of a Spark standalone cluster, over the master's REST submission API."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.bounded_http import Unanswered
from airflow_stream_provider.clusters.cluster import (
    CLOCK_SLACK,
    DriverState,
    DriverView,
    FoundDrivers,
    Remains,
    SubmitUnclear,
    Traits,
    UnmanagedJob,
)
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.log_tail import tail
from airflow_stream_provider.clusters.master_api import Master, create_submission_request, driver_conf
from airflow_stream_provider.clusters.spark_sizes import FreeResources, ResourceRequest
from airflow_stream_provider.clusters.whose import Whose, deployment_named
from airflow_stream_provider.clusters.worker_hosts import WorkerHosts
from airflow_stream_provider.clusters.workers import (
    StandaloneUnmanaged,
    ask_all,
    driver_belongs,
    executors_left,
    in_use,
)
from airflow_stream_provider.lifecycle.errors import ClusterError

# Seconds after which a driver that cannot be told whose it is hinders no submission any more.
UNTOLD_SECONDS = 300.0
# Seconds for which `submit` searches for a driver after a submission without an answer.
UNCLEAR_SECONDS = 15.0
_STATES = {
    "SUBMITTED": DriverState.QUEUED,
    "RUNNING": DriverState.RUNNING,
    "FINISHED": DriverState.FINISHED,
    "KILLED": DriverState.KILLED,
    "FAILED": DriverState.FAILED,
    "ERROR": DriverState.FAILED,
    "RELAUNCHING": DriverState.FAILED,  # what the master starts in its place has an id of its own
}
# The master's own words for a driver when it loses its worker (Master.removeWorker), or when no worker has claimed it
# after a fail-over (Master.completeRecovery; its worker is then "None"). It may run there still, also when the worker
# is back: only then is it told to kill it. One that could not be started is ERROR, too, and looks the same. One that
# was killed in the queue is KILLED without a worker: it never ran.
_OUT_OF_CONTACT = ("ERROR", "RELAUNCHING")


class StandaloneCluster:
    """Drivers on the workers of a standalone cluster; implements `Cluster`.

    :param masters: the addresses of the cluster's masters.
    """

    traits: ClassVar[Traits] = Traits(
        name="standalone",
        seconds_after_term=10.0,  # spark.worker.driverTerminateTimeout
        reserves_ids=False,
        relaunched_by="nobody; with `spark.driver.supervise` its worker",
        gone_means="the master and every worker say so",
        lost_machine="unconfirmed; by time, once the driver must have halted itself",
    )

    def __init__(self, masters: Masters) -> None:
        self._masters = masters
        self._hosts = WorkerHosts(masters.worker_hosts, masters.hosts)

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
        used = in_use(master, self._hosts)
        raise ClusterError(
            f"The cluster has no room for {job.app_name}: {cores} cores and {memory} MiB are free on {where}; "
            f"the job asks for {requested}." + (f" In use: {', '.join(used)}." if used else ""),
            next_step="Set spark.cores.max for every application, stop one, ask for less in `conf`, or add a worker. "
            "Nothing was submitted, and no running application was touched.",
            free_cores=cores,
            free_memory=memory,
            asked=str(requested),
        )

    def reserve(self, job: Job) -> str:
        """Return an empty text: the master gives a driver its id when it takes it."""
        return ""

    def submit(self, job: Job, reserved: str = "") -> str:
        """Start the job's driver on a worker and return its id, such as ``driver-20261121023732-0002``.

        If the master does not answer, search for the driver for up to 15 s before raising SubmitUnclear.
        """
        request = create_submission_request(job, self._masters.url)
        since = time.time()
        master = api.find_master(self._masters)
        try:
            return api.create(master, request)
        except SubmitUnclear:
            found = self._look_for(job.whose, since)
            if found is None:
                raise
            return found

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        """Return the deployment's drivers, recognised by the launch command in the first line of their stderr.

        The master's API does not show a driver's arguments. The worker serves the driver's log, and writes its first
        line before it starts the driver. A driver in the queue shows only main class, cores and memory.
        """
        master = api.find_master(self._masters)
        oldest = since + master.clock_ahead - CLOCK_SLACK
        untold = max(oldest, time.time() + master.clock_ahead - UNTOLD_SECONDS)
        size = None if conf is None else ResourceRequest.from_conf(conf)

        def belongs(driver: Mapping[str, Any]) -> bool | None:
            return driver_belongs(master, self._hosts, driver, whose, size)

        active = master.active_drivers
        recent = [driver for driver in master.completed_drivers if _submitted(driver) >= oldest]
        answers = ask_all(belongs, (*active, *recent))
        found = [(driver["id"], answers[i], _submitted(driver)) for i, driver in enumerate((*active, *recent))]
        alive = [name for name, yes, _ in found[: len(active)] if yes]
        ended = [name for name, yes, _ in found[len(active) :] if yes]
        unclear = [name for name, yes, at in found[: len(active)] if yes is None and at >= untold]
        return FoundDrivers(tuple(alive), tuple(ended), certain=not unclear)

    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return the applications that the master lists, by the names that the runtime forces on them."""
        master = api.find_master(self._masters)
        named = {app["id"]: deployment_named(app["name"], stream, log) for app in master.active_apps}
        return {id: deployment for id, deployment in named.items() if deployment}

    def status(self, submission: str) -> DriverState:
        """Return the driver's state as the master reports it."""
        try:
            return _state(api.ask(api.find_master(self._masters), "status", submission))
        except ClusterError:
            return DriverState.UNKNOWN

    def overview(self, submissions: Collection[str]) -> Mapping[str, DriverView]:
        """Return what the master lists of these drivers now; the workers are not asked."""
        master = api.find_master(self._masters)
        listed = {driver["id"]: driver for driver in (*master.completed_drivers, *master.active_drivers)}
        workers = master.workers
        return {each: _view(master, workers, listed.get(each)) for each in submissions}

    def belongs(self, id: str, whose: Whose) -> bool | None:
        """Return whose an application is by its name, and a driver by its launch command, which its worker shows.

        None where the worker does not, and for what the master does not list.
        """
        master = api.find_master(self._masters)
        for app in master.active_apps:
            if app["id"] == id:
                return whose.owns(app["name"])
        driver = master.driver(id)
        if driver is None:
            return None
        # A driver that waits for a worker has written no heartbeat, so a heartbeat that names it is wrong.
        return False if driver["state"] == "SUBMITTED" else driver_belongs(master, self._hosts, driver, whose, None)

    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Ask the master to kill the driver.

        The worker sends SIGTERM, and SIGKILL after spark.worker.driverTerminateTimeout (10 s). The master reports
        KILLED once the JVM is gone. The runtime ends the driver's Python process together with its JVM. An application
        whose driver is no longer listed is ended as well: when a node loses its power, the master would keep the
        executors on other nodes until TCP gives the connection up, about a quarter of an hour.

        :raises ClusterError: the master does not answer, or refuses.
        """
        master = api.find_master(self._masters)
        answer = api.ask(master, "kill", submission)
        message = str(answer.get("message", ""))
        if not answer.get("success") and "does not exist" not in message:
            raise ClusterError(
                f"The Spark master refused to kill {submission}: {api.first_line(message)}.",
                next_step="Try again, and read the master's log.",
                submission=submission,
            )
        if all(driver["id"] != submission for driver in master.active_drivers):
            for app in master.active_apps:
                if app["id"] in applications:
                    with suppress(Unanswered):
                        api.kill_application(master, app["id"])

    def remains(
        self,
        submission: str,
        whose: Whose,
        applications: Collection[str] = (),
        hosts: Collection[str] | None = None,
    ) -> Remains:
        """Return what the master and the workers still list of the driver, its application and its executors.

        They are known by the application's id, and by its name, which the runtime forces on it. A worker that the
        master has lost counts if it is on one of the hosts.
        """
        try:
            master = api.find_master(self._masters)
        except ClusterError as error:
            return Remains((error.message,))

        def ours(id: str, name: str) -> bool:
            return id in applications or whose.owns(name)

        apps = [f"Application {a['id']} is {a['state']}." for a in master.active_apps if ours(a["id"], a["name"])]
        left = [f"Driver {d['id']} is {d['state']}." for d in master.active_drivers if d["id"] == submission]
        lost = [
            f"Worker {worker['id']} is {worker['state']}, and may run executors."
            for worker in master.lost_workers
            if hosts is None or worker["host"] in hosts
        ]
        driver = master.driver(submission)
        if driver is None:
            lost.append(f"The master does not know driver {submission}.")
        elif driver["state"] in _OUT_OF_CONTACT:
            lost.append(
                f"Driver {submission} is {driver['state']} (worker {driver['worker']}): it may run there still."
            )
            if driver["worker"] not in master.workers:
                # The master believes in the connection to it until TCP gives it up.
                lost, apps = lost + apps, []
        left += apps
        workers = list(master.workers.values())
        if not workers:
            # After a restart the master knows nothing until its workers register; it then kills what they run.
            left.append("No worker is registered with the master.")
        answers = ask_all(lambda worker: executors_left(worker, self._hosts, ours), workers)
        for worker, found in zip(workers, answers, strict=True):
            left += [f"Worker {worker['id']} was not reached in time."] if found is None else found
        return Remains(tuple(left), tuple(lost))

    def unmanaged(self, id: str) -> UnmanagedJob | None:
        """Return a driver (``driver-…``) or, of a job in client mode, an application (``app-…``)."""
        return StandaloneUnmanaged(self._masters, self._hosts, id)

    def forget(self, over: Collection[Whose]) -> None:
        """Do nothing: the master keeps nothing for us."""

    def links(self, submission: str) -> Mapping[str, str]:
        """Return links to the driver's log on its worker and to the master's web UI."""
        try:
            master = api.find_master(self._masters)
        except ClusterError:
            return {}
        return _view(master, master.workers, master.driver(submission)).links

    def log_tail(self, submission: str) -> str:
        """Return the end of the driver's log on its worker, which keeps it; empty if that is lost."""
        try:
            master = api.find_master(self._masters)
            worker = master.workers.get((master.driver(submission) or {}).get("worker", ""))
            if worker is None:
                return ""
            # The driver's Python writes to stdout, as its JVM passes that on.
            return tail(
                **{name: api.driver_log_end(worker, self._hosts, submission, name) for name in ("stderr", "stdout")}
            )
        except ClusterError:
            return ""

    def _look_for(self, whose: Whose, since: float) -> str | None:
        deadline = time.monotonic() + UNCLEAR_SECONDS
        while time.monotonic() < deadline:
            with suppress(ClusterError):
                found = self.find(whose, since)
                if found.alive or found.ended:
                    return (found.alive or found.ended)[0]
            time.sleep(1)
        return None


def _state(answer: Mapping[str, Any]) -> DriverState:
    if not answer.get("success"):
        # "Not found" has neither a state nor a message. A master that has just stepped down sends a message.
        return DriverState.UNKNOWN if answer.get("message") else DriverState.LOST
    return _STATES.get(str(answer.get("driverState")), DriverState.UNKNOWN)


def _view(master: Master, workers: Mapping[str, Mapping[str, Any]], driver: Mapping[str, Any] | None) -> DriverView:
    """Return what the master lists of a driver; `driver` None: nothing."""
    links = {"Spark master": master.ui}
    if driver is None:
        return DriverView(DriverState.LOST, links)
    worker = workers.get(driver["worker"])
    if worker:
        links["driver log"] = api.driver_log_url(worker, driver["id"])
    return DriverView(_STATES.get(str(driver.get("state")), DriverState.UNKNOWN), links)


def _submitted(driver: Mapping[str, Any]) -> float:
    return int(driver["starttime"]) / 1000
