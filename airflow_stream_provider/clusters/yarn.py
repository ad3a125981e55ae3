"""Run drivers on YARN, over the REST of its ResourceManager: no Spark and no Hadoop on Airflow's side.

A submission's id is the application's. It is noted before anything is sent, and YARN starts one application of an id
at most. With Kerberos it is a tag (`yarn_kerberos`), by which the application is found here, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from typing_extensions import override

from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.bounded_http import WorkerHosts, ui_settings
from airflow_stream_provider.clusters.cluster import (
    CLOCK_SLACK,
    Cluster,
    ClusterFacts,
    DriverView,
    FoundDrivers,
    Remains,
    SubmitUnclear,
    UnmanagedView,
)
from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.whose import Whose, deployment_named
from airflow_stream_provider.clusters.yarn_api import Manager, is_submission
from airflow_stream_provider.clusters.yarn_applications import (
    WAITS,
    absent,
    application_remains,
    driver_log_tail,
    runs,
    state_of,
    unmanaged,
    view,
    without_torn_lines,
)
from airflow_stream_provider.clusters.yarn_request import (
    COMMON_TAG,
    deployment_tag,
    log_tag,
    refuse_unsafe_environment,
    said_tags,
    spark_conf,
    submission_request,
    tags_of,
)
from airflow_stream_provider.clusters.yarn_room import ContainerSizes, fits, leaf_queues
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.texts import count

# The settings that the audit reads. All nodes of a cluster should have the same.
RM_SETTINGS = ("yarn.resourcemanager.recovery.enabled",)
NM_SETTINGS = (
    "yarn.nodemanager.recovery.enabled",
    "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds",
)
ASKED_NODES = 3
# Seconds for the ResourceManager to store what it was sent, and for the queue to take it. It answers before.
TAKEN_SECONDS = 15.0


class YarnCluster(Cluster):
    """Drivers on YARN.

    :param settings: what the connection says.
    """

    def __init__(self, settings: YarnSettings) -> None:
        self._settings = settings
        self._hosts = WorkerHosts(settings.node_hosts, settings.addresses)

    @override
    def answer(self) -> str:
        manager = api.find_active(self._settings)
        running = [node for node in api.nodes(manager) if node.get("state") == "RUNNING"]
        memory = sum(int(node.get("availMemoryMB", 0)) for node in running)
        return (
            f"The ResourceManager at {manager.url} is active; {memory} MiB are free on {count(len(running), 'node')}."
        )

    @override
    def check(self, job: Job) -> None:
        """Check the queue, its room for another driver, and the nodes' room for it and its executors.

        That YARN lets the user submit to the queue is checked as far as it says so.
        """
        sizes = ContainerSizes.from_conf(spark_conf(job, self._settings))
        refuse_unsafe_environment(job)
        submission_request(job, self._settings, "application_0_0000", sizes)  # what it refuses, before an id is taken
        manager = api.find_active(self._settings)
        self._check_queue(manager, job, sizes)
        free = [int(node.get("availMemoryMB", 0)) for node in api.nodes(manager) if node.get("state") == "RUNNING"]
        if not fits(sizes, free):
            where = "1 node" if len(free) == 1 else f"{len(free)} nodes"
            raise _no_room(
                f"YARN has no room for {job.app_name}: {sum(free)} MiB are free on {where}; the job asks for {sizes}.",
                free_memory=sum(free),
                asked=str(sizes),
            )

    def _check_queue(self, manager: Manager, job: Job, sizes: ContainerSizes) -> None:
        name = self._settings.queue
        queues = leaf_queues(api.get(manager, "scheduler") or {})
        if queues is None:
            return
        queue = next((each for each in queues if name in (each.path, each.path.rpartition(".")[2])), None)
        if queue is None:
            raise ClusterError(
                f"YARN has no queue {name!r}; it has {', '.join(each.path for each in queues)}.",
                next_step="Correct `queue` in the extra of the connection. Nothing was submitted.",
                queue=name,
            )
        refusal = queue.refusal(sizes)
        if refusal:
            raise ClusterError(
                f"{refusal} It is for {job.app_name}.",
                next_step="Use another queue, or ask for less in `conf`. Nothing was submitted.",
                queue=queue.path,
                asked=str(sizes),
            )
        lack = queue.lack(sizes, self._settings.user)
        if lack:
            raise _no_room(f"{lack} It is for {job.app_name}.", free_in_queue=lack, queue=queue.path, asked=str(sizes))

    @override
    def facts(self, submission: str, applications: Collection[str] = ()) -> ClusterFacts:
        """Return the settings of the ResourceManager and of the first NodeManager that answers, as far as they tell."""
        manager = api.find_active(self._settings)
        found, problems = {}, []
        for name in RM_SETTINGS:
            try:
                found[name] = api.setting(manager, name)
            except ClusterError as error:
                problems.append(error.message)
        for node in [each for each in api.nodes(manager) if each.get("state") == "RUNNING"][:ASKED_NODES]:
            url = manager.node_url(node.get("nodeHTTPAddress"))
            try:
                address = self._hosts.address(url)
                found |= {name: api.setting(manager, name, url, address) for name in NM_SETTINGS}
                break
            except ClusterError as error:
                problems.append(error.message)
        return ClusterFacts(
            {name: value for name, value in found.items() if value}, "" if found else " ".join(problems)
        )

    @override
    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        """Start the job's driver under a noted id, and return that; nothing is started if YARN knows the id already.

        A ResourceManager that was started anew may have forgotten an application that still runs. So an id that an
        earlier start of it has handed out is never sent.
        """
        conf = spark_conf(job, self._settings)
        manager = api.find_active(self._settings)
        id = note(api.new_application(manager))
        found = api.application(manager, id)
        if found is None:
            if not manager.handed_out(id):
                raise ClusterError(
                    f"{id} was reserved before the ResourceManager was started anew, so it is not sent: YARN may have "
                    "forgotten a driver that it runs.",
                    next_step="Start a new run. Nothing was submitted.",
                    submission=id,
                )
            self._send(manager, submission_request(job, self._settings, id, ContainerSizes.from_conf(conf)))
            found = self._wait_until_taken(id)
        # That it was accepted proves nothing: YARN says so for an id of another user, too.
        theirs = str(found.get("user")) != _short(self._settings.user)
        if theirs or not said_tags(found).issuperset(tags_of(job)):
            raise ClusterError(
                f"{id} is an application of {found.get('user')} named {found.get('name')!r}, and not {job.app_name}.",
                next_step="Find out who has sent it, and start a new run. Nothing was started for this stream.",
                submission=id,
            )
        return id

    def _send(self, manager: Manager, request: dict[str, Any]) -> None:
        try:
            api.submit(manager, request)
        except SubmitUnclear:
            raise
        except ClusterError:
            # Another try may have been first by a moment: YARN then refuses the second one.
            if api.application(api.find_active(self._settings), request["application-id"]) is None:
                raise

    def _wait_until_taken(self, id: str) -> dict[str, Any]:
        """Return an application that was sent just now, once the ResourceManager and the queue have taken it.

        :raises SubmitUnclear: it has not.
        :raises ClusterError: it was refused, such as by its queue.
        """
        deadline = time.monotonic() + TAKEN_SECONDS
        found: dict[str, Any] | None = None
        while time.monotonic() < deadline:
            found = api.driver(api.find_active(self._settings), id)
            if found is not None and found.get("state") not in WAITS:
                if found.get("state") == "FAILED" and not found.get("amContainerLogs"):
                    raise ClusterError(
                        f"YARN has refused {id}: {_said(found)}.",
                        next_step="Correct the connection's queue, or ask for less in `conf`, and start a new run.",
                        submission=id,
                    )
                return found
            time.sleep(0.2)
        raise SubmitUnclear(
            f"The ResourceManager has accepted {id}, and does not show it after {TAKEN_SECONDS:.0f} s.",
            next_step="Nothing to do: its id is in the control log, and it is looked for there.",
            submission=id,
        )

    @override
    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        """Return the deployment's drivers, by their tags; one that does not say its log makes the answer uncertain."""
        return self._found(api.find_active(self._settings), whose, since)

    def _found(self, manager: Manager, whose: Whose, since: float) -> FoundDrivers:
        oldest = max(0, int((since + manager.clock_ahead - CLOCK_SLACK) * 1000))
        tag = deployment_tag(whose.deployment)
        listed = api.applications(manager, applicationTags=tag, startedTimeBegin=oldest)
        ours = {str(app["id"]): app for app in listed if runs(app, whose)}
        alive = [id for id, app in ours.items() if not state_of(app).terminal]
        unclear = any(runs(app, whose) is None and not state_of(app).terminal for app in listed)
        return FoundDrivers(tuple(sorted(alive)), tuple(sorted(ours.keys() - {*alive})), certain=not unclear)

    @override
    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return the applications with the tag of the control log that have not ended, by their names."""
        if not log:
            return {}
        listed = api.applications(api.find_active(self._settings), applicationTags=log_tag(log))
        alive = {str(app["id"]): str(app.get("name")) for app in listed if not state_of(app).terminal}
        named = {id: deployment_named(name, stream, log) for id, name in alive.items()}
        return {id: deployment for id, deployment in named.items() if deployment}

    @override
    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        """Return what the ResourceManager lists now; the nodes are not asked. RESERVED: the id waits to be sent."""
        manager = api.find_active(self._settings)
        if len(ids) > 1:
            apps = api.applications(manager, applicationTags=COMMON_TAG)
            listed = {id: app for app in apps for id in (str(app["id"]), *said_tags(app))}
        else:
            listed = {each: app for each in ids if (app := api.driver(manager, each)) is not None}
        return {each: view(manager, each, listed.get(each), whose) for each in ids}

    @override
    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Ask the ResourceManager to kill the driver, and with it its executors.

        It says KILLED at once. The nodes send SIGTERM, and SIGKILL 250 ms later, to the whole process group: a driver
        has no time to release its stream.
        """
        manager = api.find_active(self._settings)
        for id in sorted({*self._ids(manager, submission), *filter(api.is_application, applications)}):
            api.kill(manager, id)

    def _ids(self, manager: Manager, submission: str) -> set[str]:
        """Return the ids of a submission's applications."""
        if is_submission(submission):
            return {str(app["id"]) for app in api.applications(manager, applicationTags=submission)}
        return {submission} if api.is_application(submission) else set()

    @override
    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
    ) -> Remains:
        """Return what the ResourceManager and the nodes still know of the driver and its executors.

        The ResourceManager alone proves nothing: it says KILLED before a node has heard of it. Every node that it knows
        must say that it runs nothing. A node cannot say so that it has lost, that was started anew since, or that it
        does not know since it was started anew itself.
        """
        try:
            manager = api.find_active(self._settings)
            own = self._ids(manager, submission)
            ids = own | {each for each in applications if api.is_application(each)}
            ids |= set(self._found(manager, whose, 0.0).alive)
            known = {id: api.application(manager, id) for id in sorted(ids)}
            nodes = api.nodes(manager)
        except ClusterError as error:
            return Remains((error.message,))
        parts = [application_remains(manager, self._hosts, id, app, nodes, hosts) for id, app in known.items()]
        if all(known[id] is None for id in own):
            parts.append(absent(manager, submission))
        alive = [sentence for part in parts for sentence in part.alive]
        lost = [sentence for part in parts for sentence in part.lost]
        return Remains(tuple(dict.fromkeys(alive)), tuple(dict.fromkeys(lost)))

    @override
    def unmanaged(self, id: str) -> UnmanagedView | None:
        return unmanaged(self._settings, self._hosts, id)

    @override
    def unmanaged_settings(self, id: str) -> tuple[str, Mapping[str, str]]:
        manager = api.find_active(self._settings)
        return ui_settings(lambda path: api.send("GET", f"{manager.url}/proxy/{id}/{path}", self._settings), id)

    @override
    def log_tail(self, submission: str) -> str:
        """Return the end of the driver's log, as long as its node has it; else what YARN says of its end."""
        try:
            manager = api.find_active(self._settings)
            return driver_log_tail(manager, api.driver(manager, submission) or {}, self._hosts)
        except ClusterError:
            return ""


def _said(app: Mapping[str, Any]) -> str:
    return without_torn_lines(str(app.get("diagnostics") or "")).strip().rstrip(".")


def _short(user: str) -> str:
    """Return a user's name without host and realm."""
    return user.partition("@")[0].partition("/")[0]


def _no_room(message: str, **fields: object) -> ClusterError:
    """By a field `free_…` others know that there is only no room; see operators/check.py."""
    return ClusterError(
        message,
        next_step="Stop an application, ask for less in `conf`, use another queue, or have more given to this one. "
        "Nothing was submitted, and no running application was touched.",
        **fields,
    )
