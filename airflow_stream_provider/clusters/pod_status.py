"""Read a pod and its node: the state of a driver or an executor, while it runs and once it has ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from airflow_stream_provider.clusters.cluster import DriverState
from airflow_stream_provider.clusters.driver_pod import FINALIZER
from airflow_stream_provider.clusters.kubernetes_api import KubernetesApi, Refused
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER
from airflow_stream_provider.lifecycle.errors import ClusterError

log = logging.getLogger(__name__)

_KILLED = (128 + 9, 128 + 15)
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Reasons of a container that is only starting.
_ON_THEIR_WAY = ("ContainerCreating", "PodInitializing")


class NodeSays(Enum):
    """The state of a node whose pod runs by all that the API server knows."""

    ALIVE = "answers"  # or has only just fallen silent
    LOST = "does not answer, so it may run there still"
    REMOVED = "is no longer in the cluster, so it may run there still"  # cut off, and no answer will ever come
    GONE = "is tainted out-of-service"  # by somebody whose word counts


def ended(pod: Mapping[str, Any]) -> bool:
    """Return whether nothing of a pod runs, nor ever will.

    The kubelet says so of each container. The pod's phase is no proof: others than the kubelet set it, too.
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    found = status.get("containerStatuses") or ()
    if not spec.get("nodeName"):
        # Without a node it was not started, and one that is being deleted gets none any more.
        return bool(pod["metadata"].get("deletionTimestamp"))
    if not found:
        # The kubelet has refused it. If somebody else has ended it, the pod has a condition that says so.
        return status.get("phase") == "Failed" and _condition(pod, "DisruptionTarget") is None
    if _failed_before_it_began(pod):
        return True
    return len(found) >= len(spec["containers"]) and all(
        (each.get("state") or {}).get("terminated") is not None for each in found
    )


def driver_state(pod: Mapping[str, Any]) -> DriverState:
    """Return the state of a driver by its pod; its node is not asked."""
    state = _container_state(pod)
    over = state.get("terminated")
    if over is not None:
        code = over.get("exitCode", 1)
        if code in _KILLED and over.get("reason") != "OOMKilled":
            return DriverState.KILLED
        return DriverState.FAILED if code else DriverState.FINISHED
    if ended(pod):
        return DriverState.FAILED if pod["spec"].get("nodeName") else DriverState.KILLED
    return DriverState.RUNNING if state.get("running") is not None else DriverState.QUEUED


def ended_at(pod: Mapping[str, Any]) -> str:
    """Return when the last container of a pod ended, such as ``2026-11-23T12:00:00Z``; empty: it is not known."""
    found = pod.get("status", {}).get("containerStatuses") or ()
    over = ((each.get("state") or {}).get("terminated") or {} for each in found)
    return max((str(each.get("finishedAt") or "") for each in over), default="")


def doubtful(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod that has not ended may be on a node that does not answer, or is no more.

    The node's controller takes the condition Ready from all pods of a node that does not answer. The pods of one
    that is no more are deleted, and called Failed, by a controller that cannot know.
    """
    if not pod["spec"].get("nodeName") or ended(pod):
        return False
    ready = (_condition(pod, "Ready") or {}).get("status") == "True"
    return not ready or bool(pod["metadata"].get("deletionTimestamp")) or pod["status"].get("phase") == "Failed"


def node_says(node: Mapping[str, Any] | None) -> NodeSays:
    """Return what a node says; None: the cluster has it no more."""
    if node is None:
        return NodeSays.REMOVED
    if any(taint.get("key") == _OUT_OF_SERVICE for taint in node.get("spec", {}).get("taints") or ()):
        return NodeSays.GONE
    ready = _condition(node, "Ready")
    return NodeSays.LOST if ready is not None and ready.get("status") == "Unknown" else NodeSays.ALIVE


def waits_for(pod: Mapping[str, Any]) -> str:
    """Return why a pod that has not started does not, in the cluster's words; empty: nothing hinders it."""
    scheduled = _condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    helpers = [each.get("state") or {} for each in pod.get("status", {}).get("initContainerStatuses") or ()]
    for state in (*helpers, _container_state(pod)):
        waiting = state.get("waiting") or {}
        reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
        if reason and reason not in _ON_THEIR_WAY:
            return f"{reason}: {message}" if message else reason
    return ""


def _failed_before_it_began(pod: Mapping[str, Any]) -> bool:
    """Return whether an init container has failed. The containers then wait for ever, as the kubelet shows them."""
    sidecars = {
        each.get("name") for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"
    }
    ends = {
        each.get("name"): (each.get("state") or {}).get("terminated") or {}
        for each in pod["status"].get("initContainerStatuses") or ()
    }
    never_ran = all(
        (each.get("state") or {}).get("waiting") is not None and not (each.get("lastState") or {}).get("terminated")
        for each in pod["status"]["containerStatuses"]
    )
    return never_ran and any(end.get("exitCode") for name, end in ends.items() if name not in sidecars)


def _container_state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    for each in pod.get("status", {}).get("containerStatuses") or ():
        if each.get("name") == CONTAINER:
            found: Mapping[str, Any] = each.get("state") or {}
            return found
    return {}


def _condition(thing: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    return next((each for each in thing.get("status", {}).get("conditions") or () if each.get("type") == kind), None)


class PodLook:
    """One look; it lasts no longer than the question that it answers."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._nodes: dict[str, tuple[NodeSays, str]] = {}

    def state(self, pod: Mapping[str, Any] | None) -> DriverState:
        """Return a driver's state: LOST if there is no pod, or its node does not answer."""
        if pod is None or (doubtful(pod) and self.left(pod)[0] is not NodeSays.ALIVE):
            return DriverState.LOST
        return driver_state(pod)

    def left(self, pod: Mapping[str, Any]) -> tuple[NodeSays, str]:
        """Return what its node says of a pod that has not ended, and a sentence.

        :raises ClusterError: the API server does not answer.
        """
        name, node = pod["metadata"]["name"], str(pod["spec"].get("nodeName") or "")
        if not doubtful(pod):
            where = f"on node {node}" if node else "on no node yet"
            return NodeSays.ALIVE, f"Pod {name} is {pod.get('status', {}).get('phase', 'there')} {where}."
        if node not in self._nodes:
            self._nodes[node] = self._ask(node)
        says, sentence = self._nodes[node]
        return says, f"Pod {name} has not ended. {sentence}"

    def _ask(self, name: str) -> tuple[NodeSays, str]:
        try:
            node = self._api.node(name)
        except Refused as error:
            if error.status != 403:
                raise
            return NodeSays.ALIVE, f"Its node {name} cannot be asked about: {error.fields['said']}."
        says = node_says(node)
        return says, f"Its node {name} {says.value}."


# Seconds for which the pod of a driver that has ended is kept after that: with it goes its log.
KEPT_SECONDS = 86400.0


def let_go(api: KubernetesApi, pods: Iterable[Mapping[str, Any]], grace: float) -> None:
    """Let go of what is kept of drivers whose end is in the log, as far as their pods have ended.

    The finalizer goes at once: a node on which such a pod lies cannot be drained before. A pod that cannot be removed
    does not keep the others.

    :param grace: seconds for what somebody has put beside a driver and runs on.
    :raises ClusterError: the API server does not answer, or refuses.
    """
    problem: ClusterError | None = None
    for pod in pods:
        try:
            _let_go(api, pod, grace)
        except ClusterError as error:
            log.warning("The pod %s is not removed: %s", pod["metadata"]["name"], error.message)
            problem = error
    if problem is not None:
        raise problem


def _let_go(api: KubernetesApi, pod: Mapping[str, Any], grace: float) -> None:
    place = (pod["metadata"]["namespace"], pod["metadata"]["name"])
    confirmed = ended(pod)
    # The end is in the log; nothing more will be known of a node that was removed.
    if not confirmed and PodLook(api).left(pod)[0] not in (NodeSays.GONE, NodeSays.REMOVED):
        if driver_state(pod).terminal:  # what somebody has put beside it runs on
            api.delete_pod(*place, grace)
        return
    at = ended_at(pod) if confirmed else ""  # one that never ran has nothing to show
    if not at or time.time() - datetime.fromisoformat(at).timestamp() > KEPT_SECONDS:
        api.delete_pod(*place, 0)
    if FINALIZER in (pod["metadata"].get("finalizers") or ()):
        api.drop_finalizer(pod, FINALIZER)
