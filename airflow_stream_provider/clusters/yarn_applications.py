"""Applications on YARN: what the ResourceManager says of one, its log, what may be left of it, and those of others.

NodeManagers are asked on allowed hosts, within a deadline and a size.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.bounded_http import Answer, Unanswered, WorkerHosts
from airflow_stream_provider.clusters.cluster import DriverState, DriverView, Remains, UnmanagedView
from airflow_stream_provider.clusters.connection import YarnSettings
from airflow_stream_provider.clusters.log_tail import READ_BYTES, tail
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.clusters.workers import ask_all
from airflow_stream_provider.clusters.yarn_api import Manager, is_application, is_submission, made_at, may_come, send
from airflow_stream_provider.clusters.yarn_request import COMMON_TAG, LOG_TAG, deployment_tag, log_tag, said_tags
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.ids import application_of

WAITS = {"NEW", "NEW_SAVING", "SUBMITTED"}
"""States before the queue has taken it."""
_ENDS = {
    "SUCCEEDED": DriverState.FINISHED,
    "FAILED": DriverState.FAILED,
    "KILLED": DriverState.KILLED,
}


def runs(app: Mapping[str, Any], whose: Whose) -> bool | None:
    """Return whether an application is of a deployment; None: it does not name its control log."""
    tags = said_tags(app)
    if deployment_tag(whose.deployment) not in tags or COMMON_TAG not in tags:
        return False
    if whose.log and any(tag.startswith(LOG_TAG) for tag in tags):
        return log_tag(whose.log) in tags
    return None


def state_of(app: Mapping[str, Any]) -> DriverState:
    """Return the state of a driver that the ResourceManager knows."""
    said = str(app.get("state"))
    if said == "RUNNING":
        return DriverState.RUNNING
    if said in ("FINISHED", "FAILED", "KILLED"):
        return _ENDS.get(str(app.get("finalStatus")), DriverState.FAILED)
    # ACCEPTED, too, until the script has made its SparkContext; before its container there is no log.
    has_container = said not in WAITS and bool(app.get("amContainerLogs"))
    return DriverState.RUNNING if has_container else DriverState.QUEUED


def view(manager: Manager, id: str, app: Mapping[str, Any] | None, whose: Whose | None = None) -> DriverView:
    """Return a driver's state with links to its page, its log on its node, and its web UI through YARN's proxy.

    :param app: None: the ResourceManager does not know it.
    """
    known = id if app is None else str(app["id"])
    links = {"YARN": f"{manager.url}/cluster/app/{quote(known, safe='')}"}
    if app is None:
        waits = may_come(id, time.time()) if is_submission(id) else is_application(id) and manager.handed_out(id)
        return DriverView(DriverState.RESERVED if waits else DriverState.LOST, links)
    if app.get("amContainerLogs"):
        links["driver log"] = str(app["amContainerLogs"])
    if app.get("state") == "RUNNING" and app.get("trackingUrl"):
        links["Spark UI"] = str(app["trackingUrl"])
    return DriverView(state_of(app), links, None if whose is None else runs(app, whose))


# A NodeManager puts some lines of its own around a file.
_LOG_LIMIT = 2 * READ_BYTES
# NodeManagers write "Last 4096 bytes of prelaunch.err :", "Last 4096 bytes of stderr :".
_TORN = re.compile(r"(\bLast \d{1,9} bytes of [^\n:]{0,200}:[ \t]*+(?:\r?\n)?+)[^\n]*(?:\n|\Z)")
_LOG_BEGINS, _LOG_ENDS = "\nLogContents:\n", "\nEnd of LogType:"


def driver_log_tail(manager: Manager, app: Mapping[str, Any], hosts: WorkerHosts) -> str:
    """Return the end of what a driver has written, or else what YARN says of its end.

    Its Python writes to stdout, as its JVM passes that on. Once logs are aggregated, the node has them no more.
    """
    try:
        # Such as http://node1:8042/node/containerlogs/container_1410450250506_0001_01_000001/alice
        container = urlsplit(str(app["amContainerLogs"])).path.split("/containerlogs/")[1].partition("/")[0]
        url = manager.node_url(app["amHostHttpAddress"])
        address = hosts.address(url)

        def read(file: str) -> str:
            page = f"{url}/ws/v1/node/containerlogs/{quote(container, safe='')}/{file}?size={-READ_BYTES}"
            text = send("GET", page, manager.settings, address, _LOG_LIMIT).text()
            return text.partition(_LOG_BEGINS)[2].rpartition(_LOG_ENDS)[0]

        found = tail(stderr=read("stderr"), stdout=read("stdout"))
    except (ClusterError, KeyError, IndexError):
        found = ""
    return found or tail(diagnostics=without_torn_lines(str(app.get("diagnostics") or "")))


def without_torn_lines(diagnostics: str) -> str:
    """Return what YARN says of an end without the lines that it has cut: their beginning may have named a secret.

    It quotes the last bytes of a container's files, from wherever they begin.
    """
    return _TORN.sub(r"\1", diagnostics)


_NODE_LIMIT = 4 * 1024 * 1024  # bytes of a node's answer
_EXACT = 2.0  # seconds, to which the clocks of two machines are compared by their answers
_RECOVERY = "yarn.nodemanager.recovery.enabled"
# The ResourceManager hears of these states; it has lost sight of all others, or never had it.
_IN_SIGHT = {"NEW", "RUNNING", "UNHEALTHY", "DECOMMISSIONING"}


def application_remains(
    manager: Manager,
    allowed: WorkerHosts,
    id: str,
    app: Mapping[str, Any] | None,
    nodes: Collection[Mapping[str, Any]],
    hosts: Collection[str] | None,
) -> Remains:
    """Return what may be left of one application.

    :param allowed: on which nodes are asked.
    :param app: what the ResourceManager says of it; None: it does not know it.
    :param nodes: all that the ResourceManager knows, also those that it has lost.
    :param hosts: on which it has run, besides its driver's; None: any.
    """
    alive = [] if app is None or state_of(app).terminal else [f"Application {id} is {app.get('state')}."]
    lost: list[str] = []
    began = int(id.split("_")[1]) if app is None else int(app.get("startedTime") or 0)
    own = {str((app or {}).get("amHostHttpAddress") or "").partition(":")[0]} - {""}
    near = None if hosts is None else {*hosts, *own}
    if not nodes:
        alive.append("No node is registered with the ResourceManager.")
    answers = ask_all(lambda node: _ask(manager, node, allowed, id, began), nodes)
    for node, answer in zip(nodes, answers, strict=True):
        name, state = f"Node {node.get('id')}", node.get("state")
        ran_here = near is None or node.get("nodeHostName") in near
        if answer is not None and answer.answered:
            alive += answer.left
            if answer.forgot and ran_here:
                lost.append(f"{name} was started anew since {id} was: what it ran before may run still.")
        elif state in _IN_SIGHT:
            alive += [f"{name} was not reached in time."] if answer is None else answer.left
        elif ran_here:
            lost.append(f"{name} is {state}, and may run parts of {id}.")
    listed = {str(node.get("nodeHostName")) for node in nodes}
    unknown = {*(hosts or ()), *own} - listed
    lost += [f"YARN does not know the node {host}, on which {id} has run." for host in sorted(unknown)]
    if hosts is None and app is not None and manager.started > began:
        lost.append(f"The ResourceManager was started anew since {id} was, and may not know all its nodes.")
    return Remains(tuple(alive), tuple(lost))


def absent(manager: Manager, submission: str) -> Remains:
    """Return what may be left of a submission whose application the ResourceManager does not know."""
    if is_submission(submission):
        if may_come(submission, time.time()):
            return Remains((f"{submission} may be on its way to YARN still.",))
        before = manager.started / 1000 > made_at(submission) + manager.clock_ahead - _EXACT
    elif is_application(submission):
        before = not manager.handed_out(submission)
    else:
        return Remains(lost=(f"{submission} is no application of YARN: another cluster runs it, or has run it.",))
    said = f"The ResourceManager was started anew, and does not know {submission}."
    return Remains(lost=(said,) if before else ())


@dataclass(frozen=True)
class _NodeAnswer:
    """The answer of a node on an application.

    :param left: a sentence for each part of it that it runs, and for what it does not say.
    :param answered: whether it does answer.
    :param forgot: it was started anew since the application began, and does not know what it ran before.
    """

    left: tuple[str, ...]
    answered: bool = False
    forgot: bool = False


def _ask(manager: Manager, node: Mapping[str, Any], allowed: WorkerHosts, id: str, began: int) -> _NodeAnswer:
    """Ask a NodeManager about an application that began at this moment, in milliseconds since 1970."""
    name = f"node {node.get('id')}"
    url = manager.node_url(node.get("nodeHTTPAddress"))
    try:
        address = allowed.address(url)

        def get(path: str) -> Answer:
            return send("GET", f"{url}/{path}", manager.settings, address, _NODE_LIMIT)

        info = get("ws/v1/node/info")
        started = int(info.json()["nodeInfo"]["nmStartupTime"]) / 1000 - info.clock_ahead
        anew = started > began / 1000 - manager.clock_ahead - _EXACT
        forgot = anew and not _recovers(get(f"conf?format=json&name={_RECOVERY}"))
        app = get(f"ws/v1/node/apps/{quote(id, safe='')}")
        state = "FINISHED" if app.status == 404 else str(app.json()["app"]["state"])
        listed = (get("ws/v1/node/containers").json()["containers"] or {}).get("container", ())
        left = [f"Container {each['id']} is on {name}." for each in listed if application_of(each["id"]) == id]
    except Unanswered as error:
        return _NodeAnswer((f"{name.capitalize()} is not known to run nothing: {error.message}",))
    except ClusterError as error:
        return _NodeAnswer((error.message,))
    except (KeyError, TypeError, ValueError, AttributeError):
        why = "it does not answer as NodeManagers do"
        return _NodeAnswer((f"{name.capitalize()} is not known to run nothing: {why}.",))
    if state != "FINISHED":
        left.append(f"{id} is {state} on {name}.")
    return _NodeAnswer(tuple(left), True, forgot)


def _recovers(answer: Answer) -> bool:
    """Return whether a NodeManager that is started anew finds its containers again; if it does not say so: no."""
    try:
        return str(answer.json()["property"]["value"]) == "true"
    except (Unanswered, KeyError, TypeError):
        return False


def unmanaged(settings: YarnSettings, hosts: WorkerHosts, id: str) -> UnmanagedView:
    """Ask the ResourceManager about an application, and every node about its containers.

    In client mode its driver is not on YARN: Spark stops it when the application is ended. YARN decides whether the
    connection's user may do that.

    :param hosts: nodes that may be asked.
    :raises ClusterError: that is no id of an application, or YARN does not answer.
    """
    if not is_application(id):
        raise ClusterError(
            f"{id} is no application of YARN.",
            next_step="Give its id, such as application_1410450250506_0001: `yarn application -list` has it.",
            job=id,
        )
    manager = api.find_active(settings)
    app = api.application(manager, id)
    if app is None:
        return UnmanagedView(id, DriverState.LOST)
    remains = application_remains(manager, hosts, id, app, api.nodes(manager), None)
    about = f"application {id} ({app.get('name')}) of {app.get('user')} in the queue {app.get('queue')}"
    return UnmanagedView(id, state_of(app), about, remains, COMMON_TAG in said_tags(app))
