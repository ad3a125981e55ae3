"""Making room against a real control log."""

from __future__ import annotations

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.stream import MakeRoomOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import UPGRADED
from tests.support.story import NEW, OLD_DEPLOYMENT, write
from tests.support.tasks import IDENTITY, run


def test_room_is_made_of_what_is_warm_and_never_of_the_holder(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UPGRADED)
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    assert run(MakeRoomOperator(task_id="t", stream=spec))["retired"] == [OLD_DEPLOYMENT]
    retired = log.records()[-1]
    assert (retired["deployment"], retired["reason"]) == (OLD_DEPLOYMENT, f"superseded by {IDENTITY.run}")
    assert log.refresh().holder == NEW
