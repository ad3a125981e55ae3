"""One look at pods: what they and their nodes say, each node asked once, and only when there is doubt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.clusters.cluster import DriverState
from airflow_stream_provider.clusters.kubernetes_api import KubernetesApi, Refused
from airflow_stream_provider.clusters.pod_status import NodeSays, doubtful, driver_state, node_says

_WHAT = {
    NodeSays.ALIVE: "answers",
    NodeSays.LOST: "does not answer, so it may run there still",
    NodeSays.REMOVED: "is no longer in the cluster, so it may run there still",
    NodeSays.GONE: "is tainted out-of-service",
}


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
        return says, f"Its node {name} {_WHAT[says]}."
