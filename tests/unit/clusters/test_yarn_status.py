"""What an application of YARN is to a stream."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, FoundDrivers, Whose, status_of
from airflow_stream_provider.clusters.yarn import YarnCluster
from tests.support.fake_yarn import DEPLOYMENT, ID, WHOSE, FakeYarn


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"state": "NEW"}, DriverState.QUEUED),
        ({"state": "SUBMITTED", "finalStatus": "UNDEFINED"}, DriverState.QUEUED),
        ({"state": "ACCEPTED", "amContainerLogs": None}, DriverState.QUEUED),
        ({"state": "ACCEPTED"}, DriverState.RUNNING),
        ({"state": "RUNNING"}, DriverState.RUNNING),
        ({"state": "FINISHED", "finalStatus": "SUCCEEDED"}, DriverState.FINISHED),
        ({"state": "FINISHED", "finalStatus": "FAILED"}, DriverState.FAILED),
        ({"state": "FINISHED", "finalStatus": "UNDEFINED"}, DriverState.FAILED),
        ({"state": "FAILED"}, DriverState.FAILED),
        ({"state": "KILLED"}, DriverState.KILLED),
    ],
)
def test_states_are_as_yarn_means_them(
    fake: FakeYarn, cluster: YarnCluster, fields: dict[str, Any], state: DriverState
) -> None:
    fake.add_app(**fields)
    assert status_of(cluster, ID) is state
    assert cluster.look([ID, "application_1_2"])[ID].state is state


def test_what_runs_of_a_stream_is_listed_by_the_tag_of_its_log_and_its_name(
    fake: FakeYarn, cluster: YarnCluster
) -> None:
    log = WHOSE.log
    name = f"orders 2 [{{}}] {log[:8]}".format
    fake.add_app(name=name(DEPLOYMENT))
    fake.add_app("application_1_2", "KILLED", name=name("orders-1-aaaa"))
    fake.add_app("application_1_3", name=name("orders-1-bbbb").replace("orders ", "payments ", 1))
    fake.add_app("application_1_4", "ACCEPTED", name=name("orders-1-cccc"))
    assert cluster.running("orders", log) == {ID: DEPLOYMENT, "application_1_4": "orders-1-cccc"}
    assert cluster.running("orders", "") == {}


def test_an_id_that_yarn_cannot_have_is_lost(cluster: YarnCluster) -> None:
    assert status_of(cluster, "driver-20200101000000-0000") is DriverState.LOST
    assert status_of(cluster, "application_1_x") is DriverState.LOST
    cluster.kill("driver-20200101000000-0000")


def test_a_driver_of_another_control_log_is_not_found(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(applicationTags=f"airflow-stream,{DEPLOYMENT},log-{'0b' * 16}")
    assert cluster.find(WHOSE, 0.0) == FoundDrivers()
    assert cluster.find(Whose(DEPLOYMENT), 0.0) == FoundDrivers(certain=False)
    fake.add_app(applicationTags=f"airflow-stream,{DEPLOYMENT}")
    assert cluster.find(WHOSE, 0.0) == FoundDrivers(certain=False)
    fake.add_app(state="KILLED", applicationTags=f"airflow-stream,{DEPLOYMENT}")
    assert cluster.find(WHOSE, 0.0) == FoundDrivers()
    fake.add_app(applicationTags=f"{DEPLOYMENT},log-{WHOSE.log}")
    assert cluster.find(WHOSE, 0.0) == FoundDrivers(), "not one of this provider"


def test_what_has_ended_is_found_as_such(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(state="KILLED")
    second = fake.add_app(ID.replace("0001", "0002"))
    assert cluster.find(WHOSE, 0.0) == FoundDrivers((second["id"],), (ID,))


def test_links_lead_to_log_ui_and_page(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app()
    page = {"YARN": f"{fake.url}/cluster/app/{ID}"}
    running = {**page, "driver log": "http://node1:8042/logs", "Spark UI": "http://rm:8088/proxy/1/"}
    assert cluster.look([ID])[ID].links == cluster.look([ID, "application_1_2"])[ID].links == running
    fake.add_app(state="ACCEPTED", amContainerLogs=None)
    assert cluster.look([ID])[ID].links == page
