from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER
from airflow_stream_provider.clusters.pod_status import (
    NodeSays,
    doubtful,
    driver_state,
    ended,
    ended_at,
    node_says,
    waits_for,
)

READY = {"type": "Ready", "status": "True"}


def pod(*states: dict[str, Any], node: str = "n1", deleted: bool = False, **status: Any) -> dict[str, Any]:
    names = [CONTAINER, "injected"]
    return {
        "metadata": {"name": "p", **({"deletionTimestamp": "2026-11-23T12:00:00Z"} if deleted else {})},
        "spec": {
            "containers": [{"name": name} for name in names[: max(1, len(states))]],
            **({"nodeName": node} if node else {}),
        },
        "status": {
            **(
                {"containerStatuses": [{"name": n, "state": s} for n, s in zip(names, states, strict=False)]}
                if states
                else {}
            ),
            **status,
        },
    }


def over(code: int, **more: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **more}}


RUNNING: dict[str, Any] = {"running": {}}
WAITING: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}


def with_helper(state: dict[str, Any], *, deleted: bool = False, **container: str) -> dict[str, Any]:
    """A pod whose init container is in this state, and whose driver waits for it."""
    waiting = {"waiting": {"reason": "PodInitializing"}}
    found = pod(waiting, deleted=deleted, initContainerStatuses=[{"name": "helper", "state": state}])
    found["spec"]["initContainers"] = [{"name": "helper", **container}]
    return found


@pytest.mark.parametrize(
    ("found", "state", "is_over"),
    [
        (pod(node=""), DriverState.QUEUED, False),
        (pod(node="", deleted=True), DriverState.KILLED, True),
        (pod(), DriverState.QUEUED, False),
        # The kubelet may be starting it at this moment.
        (pod(deleted=True), DriverState.QUEUED, False),
        (pod(WAITING, deleted=True), DriverState.QUEUED, False),
        (pod(RUNNING), DriverState.RUNNING, False),
        (pod(RUNNING, deleted=True), DriverState.RUNNING, False),
        (pod(over(0)), DriverState.FINISHED, True),
        (pod(over(3)), DriverState.FAILED, True),
        (pod(over(137)), DriverState.KILLED, True),
        (pod(over(143)), DriverState.KILLED, True),
        (pod(over(137, reason="OOMKilled")), DriverState.FAILED, True),
        # What a mesh has injected still runs.
        (pod(over(0), RUNNING), DriverState.FINISHED, False),
        # Not the kubelet's word, but that of the controller that collects pods of vanished nodes.
        (pod(RUNNING, phase="Failed", deleted=True), DriverState.RUNNING, False),
        (pod(phase="Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}]), DriverState.QUEUED, False),
        # An init container has failed: the kubelet leaves the others waiting for ever, also when the pod is deleted.
        (with_helper(over(1)), DriverState.FAILED, True),
        (with_helper(over(1), deleted=True), DriverState.FAILED, True),
        (with_helper(over(0)), DriverState.QUEUED, False),
        (with_helper(RUNNING), DriverState.QUEUED, False),
        # One beside the driver is started again.
        (with_helper(over(1), restartPolicy="Always"), DriverState.QUEUED, False),
        # The kubelet had no room for it after all.
        (pod(phase="Failed", reason="OutOfcpu"), DriverState.FAILED, True),
    ],
)
def test_the_kubelet_s_word_on_containers_decides(found: dict[str, Any], state: DriverState, is_over: bool) -> None:
    assert driver_state(found) is state
    assert ended(found) is is_over


def test_when_it_ended() -> None:
    assert ended_at(pod(over(0, finishedAt="2026-11-23T12:00:00Z"), over(1, finishedAt="2026-11-23T12:00:09Z"))) == (
        "2026-11-23T12:00:09Z"
    )
    assert ended_at(pod(RUNNING)) == ""


def test_a_node_is_asked_only_about_a_pod_that_is_not_ready_or_is_to_go() -> None:
    assert not doubtful(pod(RUNNING, conditions=[READY]))
    assert doubtful(pod(RUNNING, conditions=[{**READY, "status": "False"}]))
    assert doubtful(pod(RUNNING, conditions=[READY], deleted=True))
    assert doubtful(pod(RUNNING, conditions=[READY], phase="Failed"))
    assert not doubtful(pod(over(0), deleted=True))
    assert not doubtful(pod(node=""))


def test_what_nodes_say() -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    assert node_says(None) is NodeSays.REMOVED, "`kubectl delete node` ends nothing on its machine"
    assert node_says({"spec": {"taints": [taint]}, **unknown}) is NodeSays.GONE
    assert node_says({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable"}]}, **unknown}) is NodeSays.LOST
    # Its kubelet answers, and says that it is not well: it can be asked.
    assert node_says({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}) is NodeSays.ALIVE
    assert node_says({}) is NodeSays.ALIVE


def test_why_a_pod_waits() -> None:
    scheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert waits_for(pod(node="", conditions=[scheduled])) == "0/3 nodes are available"
    pull = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "none"'}}
    assert waits_for(pod(pull)) == 'ImagePullBackOff: Back-off pulling image "none"'
    assert waits_for(pod({"waiting": {"reason": "InvalidImageName"}})) == "InvalidImageName"
    assert waits_for(with_helper(pull)).startswith("ImagePullBackOff")
    assert waits_for(with_helper(RUNNING)) == ""
    assert waits_for(pod(WAITING)) == waits_for(pod(RUNNING)) == waits_for(pod()) == ""
