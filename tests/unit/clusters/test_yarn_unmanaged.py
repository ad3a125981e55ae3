"""An application that somebody else has started, as YARN and its nodes list it over real HTTP."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_yarn import ID, STARTED, FakeYarn


def look(cluster: YarnCluster) -> UnmanagedView:
    found = cluster.unmanaged(ID)
    assert found is not None
    return found


def test_it_is_named_and_gone_only_when_every_node_says_so(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(applicationTags="", name="orders", queue="default")
    node = fake.add_node("node1")
    node.apps[ID] = "RUNNING"
    found = look(cluster)
    assert (found.state, found.gone, found.managed) == (DriverState.RUNNING, False, False)
    assert found.about == f"application {ID} (orders) of alice in the queue default"
    cluster.kill(ID)
    assert f"PUT apps/{ID}/state" in fake.asked
    found = look(cluster)
    assert (found.state, found.gone) == (DriverState.KILLED, False), "its containers run still"
    node.apps[ID] = "FINISHED"
    assert look(cluster).gone


def test_what_yarn_does_not_know_is_lost_and_not_gone(fake: FakeYarn, cluster: YarnCluster) -> None:
    """Also an id that it has handed out: it may have forgotten what it was of."""
    fake.add_node()
    found = look(cluster)
    assert (found.state, found.gone) == (DriverState.LOST, False)


def test_what_ran_on_a_node_that_is_lost_may_run_still(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(state="KILLED")
    fake.add_node("node1").listed |= {"state": "LOST", "nodeHTTPAddress": "127.0.0.1:1"}
    assert not look(cluster).gone


def test_a_driver_of_this_provider_is_not_for_adoption(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app()
    fake.add_node()
    assert look(cluster).managed


@pytest.mark.parametrize("id", ["driver-20261121023732-0002", "orders", f"application_{STARTED}"])
def test_an_id_of_another_cluster_is_refused_by_its_form(cluster: YarnCluster, id: str) -> None:
    with pytest.raises(ClusterError, match="is no application of YARN"):
        cluster.unmanaged(id)
