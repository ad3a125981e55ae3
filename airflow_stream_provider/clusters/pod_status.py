"""Read the state of a driver or an executor from its pod and node. Pure: objects as the API server returns them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from airflow_stream_provider.clusters.cluster import DriverState
from airflow_stream_provider.clusters.pod_template import CONTAINER

_KILLED = (128 + 9, 128 + 15)
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Reasons of a container that is only starting.
_ON_THEIR_WAY = ("ContainerCreating", "PodInitializing")


class NodeSays(Enum):
    """The state of a node whose pod runs by all that the API server knows."""

    ALIVE = "the kubelet answers, or has only just fallen silent"
    LOST = "the kubelet does not answer"
    REMOVED = "the cluster has it no more: its machine may run on, cut off, and nobody will ever say so"
    GONE = "somebody whose word counts says that nothing runs there"


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
