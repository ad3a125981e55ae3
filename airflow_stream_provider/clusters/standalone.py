"""Run drivers on the workers of a Spark standalone cluster, over the master's REST submission API."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from typing_extensions import override

from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.bounded_http import Unanswered, WorkerHosts
from airflow_stream_provider.clusters.cluster import (
    CLOCK_SLACK,
    Cluster,
    ClusterFacts,
    DriverState,
    DriverView,
    FoundDrivers,
    Remains,
    SubmitUnclear,
    UnmanagedView,
)
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.log_tail import READ_BYTES, tail
from airflow_stream_provider.clusters.master_api import OUT_OF_CONTACT, STATES, create_submission_request, driver_conf
from airflow_stream_provider.clusters.spark_sizes import FreeResources, ResourceRequest
from airflow_stream_provider.clusters.whose import Whose, deployment_named
from airflow_stream_provider.clusters.workers import (
    APPLICATION,
    all_executors_left,
    ask_all,
    driver_belongs,
    executors_of,
    in_use,
    unmanaged,
)
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.texts import count

# Seconds after which a driver that cannot be told whose it is hinders no submission any more.
UNTOLD_SECONDS = 300.0
# Seconds for which `submit` searches for a driver after a submission without an answer.
UNCLEAR_SECONDS = 15.0


class StandaloneCluster(Cluster):
    """Drivers on the workers of a standalone cluster.

    :param masters: the addresses of the cluster's masters.
    """

    def __init__(self, masters: Masters) -> None:
        self._masters = masters
        self._hosts = WorkerHosts(masters.worker_hosts, (*masters.rest, *masters.ui))

    @override
    def answer(self) -> str:
        """Ask the master's page, and its REST submission API, which takes drivers and is off by default."""
        master = api.find_master(self._masters)
        api.check_rest(master)
        workers = list(master.workers.values())
        cores, memory = sum(each["coresfree"] for each in workers), sum(each["memoryfree"] for each in workers)
        free = f"{cores} cores and {memory} MiB are free on {count(len(workers), 'worker')}"
        return f"The Spark master at {master.ui} is ALIVE and takes drivers at {master.rest}; {free}."

    @override
    def check(self, job: Job) -> None:
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

    @override
    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        """Start the job's driver on a worker and return its id, such as ``driver-20261121023732-0002``.

        If the master does not answer, search for the driver for up to 15 s before raising SubmitUnclear.
        """
        job.properties()  # refuses secrets before it asks
        since = time.time()
        master = api.find_master(self._masters)
        request = create_submission_request(job, self._masters.url, len(master.workers))
        try:
            return api.create(master, request)
        except SubmitUnclear:
            found = self._look_for(job.whose, since)
            if found is None:
                raise
            return found

    @override
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

    @override
    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return the applications that the master lists, by the names that the runtime forces on them."""
        master = api.find_master(self._masters)
        named = {app["id"]: deployment_named(app["name"], stream, log) for app in master.active_apps}
        return {id: deployment for id, deployment in named.items() if deployment}

    @override
    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        """Return what the master lists; whose a driver is, by its launch command, which its worker shows.

        None where the worker does not, and for what the master does not list. An application's owner is in its name.
        """
        master = api.find_master(self._masters)
        listed = {driver["id"]: driver for driver in (*master.completed_drivers, *master.active_drivers)}
        apps = {} if whose is None else {app["id"]: whose.owns(app["name"]) for app in master.active_apps}
        workers = master.workers

        def view(id: str) -> DriverView:
            driver, links = listed.get(id), {"Spark master": master.ui}
            if driver is None:
                return DriverView(DriverState.LOST, links, apps.get(id))
            worker = workers.get(driver["worker"])
            if worker:
                links["driver log"] = api.driver_log_url(worker, id)
            ours = None
            if whose is not None:
                # A driver that waits for a worker has written no heartbeat, so a heartbeat that names it is wrong.
                waits = driver["state"] == "SUBMITTED"
                ours = False if waits else driver_belongs(master, self._hosts, driver, whose, None)
            return DriverView(_state(driver), links, ours)

        return {each: view(each) for each in ids}

    @override
    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Ask the master to kill the driver, or to end an application: Spark then stops its SparkContext.

        The worker sends SIGTERM, and SIGKILL after spark.worker.driverTerminateTimeout (10 s). The master reports
        KILLED once the JVM is gone. The runtime ends the driver's Python process together with its JVM. An application
        whose driver is no longer listed is ended as well: when a node loses its power, the master would keep the
        executors on other nodes until TCP gives the connection up, about a quarter of an hour.

        :raises ClusterError: the master does not answer, or refuses.
        """
        master = api.find_master(self._masters)
        if APPLICATION.fullmatch(submission):
            try:
                api.kill_application(master, submission)
            except Unanswered as error:
                raise ClusterError(
                    f"The Spark master did not end {submission}: {error.reason}.",
                    next_step="Try again, and read the master's log; spark.ui.killEnabled has to be true for this.",
                    submission=submission,
                ) from None
            return
        api.kill(master, submission)
        if all(driver["id"] != submission for driver in master.active_drivers):
            for app in master.active_apps:
                if app["id"] in applications:
                    with suppress(Unanswered):
                        api.kill_application(master, app["id"])

    @override
    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
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
        elif driver["state"] in OUT_OF_CONTACT:
            lost.append(
                f"Driver {submission} is {driver['state']} (worker {driver['worker']}): it may run there still."
            )
            if driver["worker"] not in master.workers:
                # The master believes in the connection to it until TCP gives it up.
                lost, apps = lost + apps, []
        return Remains((*left, *apps, *all_executors_left(master, self._hosts, ours)), tuple(lost))

    @override
    def facts(self, submission: str, applications: Collection[str] = ()) -> ClusterFacts:
        """Return the settings of the master, which Spark 4.0 and later show, and what the workers say of executors."""
        master = api.find_master(self._masters)
        ended, log = executors_of(master, self._hosts, applications)
        try:
            return ClusterFacts(api.master_settings(master), "", ended, log)
        except Unanswered as error:
            problem = f"The Spark master does not show its settings ({error.reason}); Spark 4.0 and later do."
            return ClusterFacts(problem=problem, ended_executors=ended, executor_log=log)

    @override
    def unmanaged(self, id: str) -> UnmanagedView | None:
        return unmanaged(self._masters, self._hosts, id)

    @override
    def unmanaged_settings(self, id: str) -> tuple[str, Mapping[str, str]]:
        return api.application_settings(api.find_master(self._masters), self._hosts, id)

    @override
    def log_tail(self, submission: str) -> str:
        try:
            master = api.find_master(self._masters)
            worker = master.workers.get((master.driver(submission) or {}).get("worker", ""))
            if worker is None:
                return ""
            # The driver's Python writes to stdout, as its JVM passes that on.
            names = ("stderr", "stdout")
            return tail(**{each: api.driver_log(worker, self._hosts, submission, each, READ_BYTES) for each in names})
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


def _state(driver: Mapping[str, Any]) -> DriverState:
    # The master starts another driver in place of one that is RELAUNCHING, with an id of its own.
    known = str(driver.get("state"))
    return DriverState.FAILED if known in OUT_OF_CONTACT else STATES.get(known, DriverState.UNKNOWN)


def _submitted(driver: Mapping[str, Any]) -> float:
    return int(driver["starttime"]) / 1000
