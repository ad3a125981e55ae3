"""The pods of drivers that have ended: kept by a finalizer until the end is in the control log, and then for a day."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from airflow_stream_provider.clusters.driver_pod import FINALIZER
from airflow_stream_provider.clusters.kubernetes_api import KubernetesApi
from airflow_stream_provider.clusters.pod_look import PodLook
from airflow_stream_provider.clusters.pod_status import NodeSays, driver_state, ended, ended_at
from airflow_stream_provider.lifecycle.errors import ClusterError

log = logging.getLogger(__name__)

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
