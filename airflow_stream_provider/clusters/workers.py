"""Ask the workers of a standalone cluster, all at once, for facts that its master does not know.

These are the owner of a driver, the executors that are alive, and the application that takes all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.bounded_http import Unanswered
from airflow_stream_provider.clusters.capacity import ResourceRequest
from airflow_stream_provider.clusters.master_api import Master
from airflow_stream_provider.clusters.rest_properties import FETCHING_CLASS, MAIN_CLASS
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.clusters.worker_hosts import WorkerHosts
from airflow_stream_provider.lifecycle.errors import ClusterError

# Bytes of a driver's stderr to read. It begins with the launch command, and class paths can be long.
_HEAD = 256 * 1024
# Spark's DriverRunner.runDriver writes this behind that command, in which a setting may have line breaks.
_COMMAND_ENDS = "\n" + "=" * 40 + "\n"
_PARALLEL_REQUESTS = 16
# The errors of reading a worker's state when something else than a worker of Spark has answered.
_ODD = (KeyError, TypeError, AttributeError)
# Seconds for the requests to all workers together. The state of a worker that has not answered by then is not known.
ALL_WORKERS_SECONDS = 30.0

T = TypeVar("T")


def ask_all(ask: Callable[[Mapping[str, Any]], T], subjects: Iterable[Mapping[str, Any]]) -> list[T | None]:
    """Ask about all subjects at the same time; None for those whose answer has not come in time."""
    pool = ThreadPoolExecutor(_PARALLEL_REQUESTS)
    try:
        futures = [pool.submit(ask, subject) for subject in subjects]
        done, _ = wait(futures, ALL_WORKERS_SECONDS)
        return [future.result() if future in done else None for future in futures]
    finally:
        # Not waited for: each request ends by itself at its own deadline.
        pool.shutdown(wait=False, cancel_futures=True)


def driver_belongs(
    master: Master, hosts: WorkerHosts, driver: Mapping[str, Any], whose: Whose, size: ResourceRequest | None
) -> bool | None:
    """Return whether a driver is of a deployment, whose drivers have this size; None if that is not known."""
    main_class = driver["mainclass"]
    if main_class not in (MAIN_CLASS, FETCHING_CLASS):
        return False
    if driver["worker"] not in master.workers:
        other = size is not None and (driver["cores"], driver["memory"]) != (size.driver_cores, size.driver_memory)
        return False if other else None
    words = launch_command(master, hosts, driver)
    if words is None:
        return None
    return whose.runs(words) if main_class in words else False


def launch_command(master: Master, hosts: WorkerHosts, driver: Mapping[str, Any]) -> list[str] | None:
    """Return the command that a worker has started a driver with; None if it does not say so."""
    worker = master.workers.get(driver["worker"])
    try:
        head = "" if worker is None else api.driver_log_head(worker, hosts, driver["id"], _HEAD)
    except ClusterError:
        return None
    command, end, _ = head.partition(_COMMAND_ENDS)
    if not end or not command.startswith("Launch Command: "):
        return None
    # Every word is in quotation marks, with one space between.
    return command.removeprefix("Launch Command: ").strip('"').split('" "')


def executors_left(worker: Mapping[str, Any], hosts: WorkerHosts, ours: Callable[[str, str], bool]) -> list[str]:
    """Return a sentence for each executor of ours that a worker runs, and for what it does not say.

    :param ours: whether an application is, by its id and its name.
    """
    try:
        return [
            f"Executor {executor['id']} of {executor['appid']} is alive on worker {worker['id']}."
            for executor in api.worker_state(worker, hosts)["executors"]
            if ours(executor["appid"], executor["appdesc"]["name"])
        ]
    except Unanswered as error:
        return [f"Worker {worker['id']} is not known to run nothing: {error.message}"]
    except ClusterError as error:
        return [error.message]
    except _ODD:
        return [f"Worker {worker['id']} is not known to run nothing: it does not answer as Spark's workers do."]


def in_use(master: Master, hosts: WorkerHosts) -> list[str]:
    """Return which applications and drivers use the cluster's cores, the largest first.

    Applications without spark.cores.max are marked, because they take all free cores.
    """

    def unbounded_on(worker: Mapping[str, Any]) -> set[str]:
        with suppress(ClusterError, *_ODD):
            return {e["appid"] for e in api.worker_state(worker, hosts)["executors"] if not e["appdesc"].get("cores")}
        return set()

    unbounded = set[str]().union(*filter(None, ask_all(unbounded_on, master.workers.values())))
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
