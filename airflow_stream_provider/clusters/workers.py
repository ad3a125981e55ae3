"""Ask the workers of a standalone cluster for what its master does not know, also of jobs of others.

These are the owner of a driver, the executors that are alive, and the application that takes all cores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from airflow_stream_provider.clusters import master_api as api
from airflow_stream_provider.clusters.bounded_http import Unanswered, WorkerHosts
from airflow_stream_provider.clusters.cluster import DriverState, Remains, UnmanagedView
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.master_api import FETCHING_CLASS, MAIN_CLASS, STATES, Master
from airflow_stream_provider.clusters.spark_sizes import ResourceRequest
from airflow_stream_provider.clusters.whose import LOG_CONF, Whose
from airflow_stream_provider.control.bounded import NoAnswer, NotReached, gather
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
    reads = {f"worker {number}": partial(ask, subject) for number, subject in enumerate(subjects)}
    found: list[T | None] = []
    for answer in gather(reads, ALL_WORKERS_SECONDS, width=_PARALLEL_REQUESTS).values():
        if isinstance(answer, Exception) and not isinstance(answer, (NoAnswer, NotReached)):
            raise answer
        found.append(None if isinstance(answer, Exception) else answer)
    return found


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
        head = "" if worker is None else api.driver_log(worker, hosts, driver["id"], "stderr", _HEAD, offset=0)
    except ClusterError:
        return None
    command, end, _ = head.partition(_COMMAND_ENDS)
    if not end or not command.startswith("Launch Command: "):
        return None
    # Every word is in quotation marks, with one space between.
    return command.removeprefix("Launch Command: ").strip('"').split('" "')


def all_executors_left(master: Master, hosts: WorkerHosts, ours: Callable[[str, str], bool]) -> list[str]:
    """Return a sentence for each executor of ours that a live worker runs, and for what one does not say.

    :param ours: whether an application is, by its id and its name.
    """
    workers = list(master.workers.values())
    # After a restart the master knows nothing until its workers register; it then kills what they run.
    left = [] if workers else ["No worker is registered with the master."]
    answers = ask_all(lambda worker: _executors_left(worker, hosts, ours), workers)
    for worker, found in zip(workers, answers, strict=True):
        left += [f"Worker {worker['id']} was not reached in time."] if found is None else found
    return left


def _executors_left(worker: Mapping[str, Any], hosts: WorkerHosts, ours: Callable[[str, str], bool]) -> list[str]:
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


def executors_of(master: Master, hosts: WorkerHosts, applications: Collection[str]) -> tuple[int | None, int | None]:
    """Return how many executors of applications have ended, and the bytes of the largest log of those that run.

    None: no worker tells.
    """

    def of(worker: Mapping[str, Any]) -> tuple[int, list[int]]:
        state = api.worker_state(worker, hosts)
        mine = [each for each in state["executors"] if each["appid"] in applications]
        ended = sum(each["appid"] in applications for each in state["finishedexecutors"])
        return ended, [api.executor_log_size(worker, hosts, each["appid"], each["id"]) for each in mine]

    def asked(worker: Mapping[str, Any]) -> tuple[int, list[int]] | None:
        with suppress(ClusterError, *_ODD):
            return of(worker)
        return None

    found = [each for each in ask_all(asked, master.workers.values()) if each is not None]
    sizes = [size for _, each in found for size in each]
    return (sum(ended for ended, _ in found) if found else None), max(sizes, default=None)


_DRIVER = re.compile(r"driver-\d+-\d+")
APPLICATION = re.compile(r"app-\d+-\d+")
# As `lifecycle.ids.application_name` ends; users name their applications otherwise.
_OURS = re.compile(r".+ \[[a-z0-9_-]+\]( [0-9a-f]{8})?")


def unmanaged(masters: Masters, hosts: WorkerHosts, id: str) -> UnmanagedView:
    """Ask the master about a driver (``driver-…``) or, of a job in client mode, an application (``app-…``).

    A driver's command line, at the head of its log on the worker, says whose it is; without that it is not known.

    The master does not say which application is a driver's own. That ends with it, so no worker may have an executor of
    any application that has ended. Those of one that the master still calls active are not looked at: they may belong
    to any driver. Its own is active for the moment in which the master has not noticed yet that its connection is gone;
    before a driver follows, the checkpoint's logs have to stand still for much longer.

    :raises ClusterError: that is no id of such a cluster, or the master does not answer.
    """
    is_driver = _DRIVER.fullmatch(id) is not None
    if not is_driver and not APPLICATION.fullmatch(id):
        raise ClusterError(
            f"{id} is no id of a Spark standalone cluster.",
            next_step="Give the submission's id (driver-…) or, of a job in client mode, the application's (app-…): "
            "the master's page has both.",
            job=id,
        )
    master = api.find_master(masters)
    known = (*master.active_apps, *master.completed_apps)
    found = master.driver(id) if is_driver else next((app for app in known if app["id"] == id), None)
    if found is None:
        return UnmanagedView(id, DriverState.LOST)
    if is_driver:
        active = {app["id"] for app in master.active_apps}
        left = all_executors_left(master, hosts, lambda app, name: app not in active)
        words = launch_command(master, hosts, found)
        ours = words is not None and (any(LOG_CONF in word for word in words) or "--deployment" in words)
        managed = None if words is None else ours
        about = f"driver {id} ({found['mainclass']}, worker {found['worker']})"
    else:
        left = all_executors_left(master, hosts, lambda app, name: app == id)
        managed = bool(_OURS.fullmatch(str(found["name"])))
        about = f"application {id} ({found['name']}) of {found.get('user', 'an unknown user')}"
    # ERROR and RELAUNCHING say that the master has lost it: it may run still.
    state = STATES.get(str(found["state"]), DriverState.LOST)
    if not state.terminal:
        left.insert(0, f"{'Driver' if is_driver else 'Application'} {id} is {found['state']}.")
    lost = (f"Worker {each['id']} is {each['state']}, and may run executors." for each in master.lost_workers)
    return UnmanagedView(id, state, about, Remains(tuple(left), tuple(lost)), managed)
