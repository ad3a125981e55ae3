"""When a pod that has ended is removed, on the stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, status_of
from airflow_stream_provider.clusters import pod_status as module
from airflow_stream_provider.clusters.driver_pod import FINALIZER
from airflow_stream_provider.clusters.kubernetes_api import KubernetesApi
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from tests.support.pods import Pods


def test_a_pod_is_forgotten_a_day_after_its_end_when_the_log_has_it(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, over, alive, other = pods.cluster(), pods.job("0"), pods.job(), pods.job("0")
    submission, _, kept = cluster.submit(over), pods.running(alive), cluster.submit(other)
    wait_for("both ends", lambda: all(status_of(cluster, each).terminal for each in (submission, kept)))
    cluster.forget([over.whose, alive.whose])
    assert status_of(cluster, submission) is DriverState.FINISHED, "people may want its log"
    assert not pods.pod(submission)["metadata"].get("finalizers"), "its node may be drained"
    assert pods.pod(kept)["metadata"]["finalizers"] == [FINALIZER]
    monkeypatch.setattr(module, "KEPT_SECONDS", -10.0)
    cluster.forget([over.whose, alive.whose])
    assert status_of(cluster, submission) is DriverState.LOST
    assert cluster.find(alive.whose, 0).alive, "what runs is never forgotten"
    assert status_of(cluster, kept) is DriverState.FINISHED, "its end is not in the log"
    # One that a kill has deleted, and that only the finalizer keeps.
    cluster.kill(kept)
    cluster.forget([other.whose])
    assert status_of(cluster, kept) is DriverState.LOST


def test_one_that_cannot_be_forgotten_does_not_keep_the_others(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", -10.0)
    cluster, jobs = pods.cluster(), [pods.job("0"), pods.job("0")]
    submissions = [cluster.submit(each) for each in jobs]
    wait_for("both ends", lambda: all(status_of(cluster, each).terminal for each in submissions))
    kept, gone = sorted(submissions)
    drop = KubernetesApi.drop_finalizer

    def refuse(self: KubernetesApi, pod: Mapping[str, Any], finalizer: str) -> None:
        if pod["metadata"]["name"] == kept.partition("/")[2]:
            raise ClusterError("A policy forbids it.", next_step="Ask for it.")
        drop(self, pod, finalizer)

    monkeypatch.setattr(KubernetesApi, "drop_finalizer", refuse)
    with pytest.raises(ClusterError, match="A policy forbids it"):
        cluster.forget([each.whose for each in jobs])
    assert status_of(cluster, kept).terminal
    assert status_of(cluster, gone) is DriverState.LOST
