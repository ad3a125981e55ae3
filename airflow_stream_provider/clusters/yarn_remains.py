"""Ask the ResourceManager and every NodeManager for the remains of an application: that alone confirms an end.

NodeManagers are asked on allowed hosts, within a deadline and a size.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from airflow_stream_provider.clusters.bounded_http import Answer, Unanswered
from airflow_stream_provider.clusters.cluster import Remains
from airflow_stream_provider.clusters.worker_hosts import WorkerHosts
from airflow_stream_provider.clusters.workers import ask_all
from airflow_stream_provider.clusters.yarn_api import Manager, is_application, send
from airflow_stream_provider.clusters.yarn_status import state_of
from airflow_stream_provider.clusters.yarn_submission import is_submission, made_at, may_come
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.ids import application_of

_LIMIT = 4 * 1024 * 1024  # bytes of a node's answer
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
            return send("GET", f"{url}/{path}", manager.asker, address, _LIMIT)

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
