"""When a driver on YARN is gone: what its nodes say, and what nobody can say."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters import Remains
from airflow_stream_provider.clusters.yarn import YarnCluster
from tests.support.fake_yarn import DEPLOYMENT, ID, STARTED, WHOSE, FakeYarn

EARLIER = "application_1600000000000_0001"


def remains(cluster: YarnCluster, hosts: set[str] | None = None, id: str = ID) -> Remains:
    return cluster.remains(id, WHOSE, (), hosts)


def test_gone_is_what_every_node_says(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app()
    one, two = fake.add_node("node1"), fake.add_node("node2")
    one.apps[ID] = "RUNNING"
    container = f"container_e17_{STARTED}_0001_01_000002"
    two.containers = [container, f"container_{STARTED}_0002_01_000001"]
    assert remains(cluster).alive == (
        f"Application {ID} is RUNNING.",
        f"{ID} is RUNNING on node node1:45454.",
        f"Container {container} is on node node2:45454.",
    )
    fake.add_app(state="KILLED")
    assert len(remains(cluster).alive) == 2, "that the ResourceManager says KILLED proves nothing"
    one.apps[ID] = "FINISHED"
    assert not cluster.remains(ID, WHOSE).gone
    two.containers = []
    assert cluster.remains(ID, WHOSE).gone


def test_another_driver_of_the_deployment_is_not_gone(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node()
    fake.add_app(ID.replace("0001", "0002"))
    assert "0002 is RUNNING" in remains(cluster).alive[0]
    assert "0002 is RUNNING" in remains(cluster, id=DEPLOYMENT).alive[0], "whose submission nobody knows"


def test_a_node_that_does_not_answer_is_not_confirmed(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(state="KILLED")
    fake.add_node("node1")
    fake.add_node("node2").listed["nodeHTTPAddress"] = "127.0.0.1:1"
    left = remains(cluster, {"node1"})
    assert "Node node2:45454 is not known to run nothing" in left.alive[0]
    fake.nodes[1].listed["nodeHTTPAddress"] = "example.org:8042"
    assert "which is not in the masters' network" in remains(cluster).alive[0]
    fake.nodes.clear()
    assert remains(cluster).alive == ("No node is registered with the ResourceManager.",)


@pytest.mark.parametrize("state", ["LOST", "SHUTDOWN", "DECOMMISSIONED", "REBOOTED"])
def test_a_lost_node_is_unconfirmed_until_it_answers(fake: FakeYarn, cluster: YarnCluster, state: str) -> None:
    fake.add_app(state="KILLED")
    fake.add_node("node1")
    node = fake.add_node("node2")
    address = node.listed["nodeHTTPAddress"]
    node.listed |= {"state": state, "nodeHTTPAddress": "127.0.0.1:1"}
    assert remains(cluster) == Remains(lost=(f"Node node2:45454 is {state}, and may run parts of {ID}.",))
    assert remains(cluster, {"node1", "node2"}).lost
    assert remains(cluster, {"node1"}).gone, "it never had an executor there"
    node.listed["nodeHTTPAddress"] = address
    assert remains(cluster).gone


def test_the_driver_s_own_node_counts_whatever_its_heartbeat_says(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(state="KILLED")
    fake.add_node("node1").listed |= {"state": "LOST", "nodeHTTPAddress": "127.0.0.1:1"}
    fake.add_node("node2")
    assert remains(cluster, {"node2"}).lost


def test_a_node_that_was_started_anew_may_have_left_something(fake: FakeYarn, cluster: YarnCluster) -> None:
    """One that was killed leaves its containers, and knows nothing of them when it is back."""
    fake.add_app(state="FAILED")
    node = fake.add_node("node1", started=STARTED + 120_000)
    assert "Node node1:45454 was started anew since" in remains(cluster).lost[0]
    fake.add_node("node2")
    fake.add_app(state="FAILED", amHostHttpAddress="node2:8042")
    assert remains(cluster, {"node2"}).gone
    node.recovers = True
    assert remains(cluster).gone
    node.started, node.recovers = STARTED, False
    assert remains(cluster).gone


def test_what_another_cluster_was_given_is_not_gone(fake: FakeYarn, cluster: YarnCluster) -> None:
    """The stream was moved to YARN: its last holder has a submission of a standalone cluster, or a pod."""
    fake.add_node()
    for theirs in ("driver-20261123000000-0001", "streams/orders-driver"):
        assert f"{theirs} is no application of YARN" in remains(cluster, {"w1"}, theirs).lost[0]


def test_a_node_that_a_manager_started_anew_does_not_know_yet_counts(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node("node2", started=STARTED - 120_000)
    fake.add_app(state="KILLED", amHostHttpAddress="node1:8042")
    assert "YARN does not know the node node1" in remains(cluster, {"node2"}).lost[0]
    fake.add_app(state="KILLED", amHostHttpAddress="node2:8042", startedTime=STARTED - 60_000)
    assert "may not know all its nodes" in remains(cluster).lost[-1]
    assert remains(cluster, {"node2"}).gone


def test_a_manager_that_was_started_anew_knows_no_nodes_of_before(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node("node1", started=1_500_000_000_000)
    assert remains(cluster, {"node1"}, EARLIER).lost == (
        f"The ResourceManager was started anew, and does not know {EARLIER}.",
    )
    fake.add_app(EARLIER, state="KILLED")
    assert remains(cluster, {"node1"}, EARLIER).gone
    assert "YARN does not know the node node9, on which" in remains(cluster, {"node1", "node9"}, EARLIER).lost[0]
