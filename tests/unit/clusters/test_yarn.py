"""Drivers on YARN: a ResourceManager and NodeManagers over real HTTP, which say what the real ones were seen to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, FoundDrivers, Job, Remains, SubmitUnclear, Whose, yarn
from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.clusters.yarn_connection import ADDRESS
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from tests.support.fake_yarn import DEPLOYMENT, ID, STARTED, WHOSE, FakeYarn
from tests.support.jobs import job

EARLIER = "application_1600000000000_0001"
JOB: Job = job(log=WHOSE.log)
QUEUE = {
    "queuePath": "root.default",
    "queueType": "leaf",
    "state": "RUNNING",
    "maximumAllocation": {"memory": 8192, "vCores": 4},
}


@pytest.fixture
def fake() -> Iterator[FakeYarn]:
    found = FakeYarn()
    yield found
    found.close()


@pytest.fixture
def cluster(fake: FakeYarn) -> YarnCluster:
    return fake.cluster()


# -- room --------------------------------------------------------------------------------------------------------------


def test_a_job_that_fits_is_checked_and_nothing_is_started(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node()
    fake.add_node()
    cluster.check(JOB)
    fake.scheduler = {"type": "capacityScheduler", "queues": {"queue": [QUEUE]}}
    cluster.check(JOB)
    fake.cluster(queue="root.default").check(JOB)
    assert all(each.startswith("GET ") for each in fake.asked)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ({"queuePath": "root.other"}, "YARN has no queue 'default'; it has root.other."),
        ({"state": "STOPPED"}, "The queue root.default is STOPPED."),
        ({"maximumAllocation": {"memory": 1024, "vCores": 4}}, "gives none of more than 1024"),
        (
            {"AMResourceLimit": {"memory": 2048}, "usedAMResource": {"memory": 1024}},
            "no room for another driver: its drivers may have 2048 MiB together",
        ),
    ],
)
def test_a_queue_without_room_is_named(fake: FakeYarn, cluster: YarnCluster, queue: dict[str, Any], said: str) -> None:
    fake.add_node()
    fake.scheduler = {"type": "capacityScheduler", "queues": {"queue": [{**QUEUE, **queue}]}}
    with pytest.raises(ClusterError) as refused:
        cluster.check(JOB)
    assert said in refused.value.message
    assert "Nothing was submitted" in refused.value.next_step


def test_a_user_who_may_not_submit_is_told_so(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node()
    fake.scheduler = {"type": "capacityScheduler", "queues": {"queue": [QUEUE]}}
    fake.answers["GET queues/root.default/access"] = (200, {"allowed": "false", "diagnostics": "No."})
    with pytest.raises(ClusterError, match=r"does not let the user alice submit to the queue root\.default: No"):
        cluster.check(JOB)
    fake.answers["GET queues/root.default/access"] = (404, {})  # of an older Hadoop
    fake.add_node()
    cluster.check(JOB)


def test_full_nodes_are_told_with_what_is_asked(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node().listed["availMemoryMB"] = 1500
    fake.add_node().listed["state"] = "UNHEALTHY"
    with pytest.raises(ClusterError) as refused:
        cluster.check(JOB)
    assert "1500 MiB are free on 1 node; the job asks for 1408 MiB for the driver, 2 executors" in refused.value.message


# -- exactly once ------------------------------------------------------------------------------------------------------


def test_an_id_is_reserved_then_sent_once(fake: FakeYarn, cluster: YarnCluster) -> None:
    id = cluster.reserve(JOB)
    assert (id, cluster.status(id), fake.sent) == (ID, DriverState.RESERVED, [])
    assert cluster.submit(JOB, id) == id
    assert cluster.submit(JOB, id) == id
    assert [each["application-id"] for each in fake.sent] == [id]
    assert cluster.status(id) is DriverState.RUNNING
    assert cluster.find(WHOSE, STARTED / 1000) == FoundDrivers((id,))


def test_a_job_without_a_reserved_id_gets_one(fake: FakeYarn, cluster: YarnCluster) -> None:
    assert cluster.submit(JOB) == ID
    assert len(fake.sent) == 1


def test_what_has_ended_is_not_sent_again(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(state="FAILED")
    assert cluster.submit(JOB, ID) == ID
    assert fake.sent == []


def test_an_id_of_an_earlier_start_is_never_sent(fake: FakeYarn, cluster: YarnCluster) -> None:
    assert cluster.status(EARLIER) is DriverState.LOST
    with pytest.raises(ClusterError, match="was reserved before the ResourceManager was started anew"):
        cluster.submit(JOB, EARLIER)
    assert fake.sent == []
    fake.add_app(EARLIER)  # it has kept its state
    assert cluster.submit(JOB, EARLIER) == EARLIER


@pytest.mark.parametrize("theirs", [{"user": "mallory"}, {"applicationTags": "airflow-stream,orders-2-1a2b"}])
def test_an_id_that_somebody_else_has_sent_is_not_taken_for_ours(
    fake: FakeYarn, cluster: YarnCluster, theirs: dict[str, str]
) -> None:
    """YARN answers 202 to a second POST of an id, whoever sent the first."""
    fake.add_app(**theirs)
    with pytest.raises(ClusterError, match="and not orders 2"):
        cluster.submit(JOB, ID)
    assert fake.sent == []


def test_what_is_taken_and_not_stored_is_unclear(
    fake: FakeYarn, cluster: YarnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yarn, "TAKEN_SECONDS", 0.5)
    fake.forgets = True
    with pytest.raises(SubmitUnclear, match="has taken"):
        cluster.submit(JOB, ID)
    fake.forgets = False
    assert cluster.submit(JOB, ID) == ID


def test_what_yarn_refuses_is_told(fake: FakeYarn, cluster: YarnCluster) -> None:
    message = "org.apache.hadoop.yarn.webapp.BadRequestException: App submission via REST is disabled."
    fake.answers["POST apps"] = (403, {"RemoteException": {"message": message}})
    with pytest.raises(ClusterError, match=r"refused the driver: App submission via REST is disabled \(HTTP 403\)"):
        cluster.submit(JOB, ID)
    del fake.answers["POST apps"]
    fake.answers[f"GET apps/{ID}"] = (200, {"app": {"state": "FAILED", "diagnostics": "Unknown queue: x\n"}})
    fake.answers[f"GET apps/{ID}"] = (404, {})
    fake.answers["POST apps/new-application"] = (401, {})
    with pytest.raises(ClusterError, match="HTTP 401, and wants Kerberos") as refused:
        cluster.reserve(JOB)
    assert "Kerberos is not supported on YARN yet" in refused.value.next_step


# -- what there is -----------------------------------------------------------------------------------------------------


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
    assert cluster.status(ID) is state
    assert cluster.overview([ID])[ID].state is state


def test_an_id_that_yarn_cannot_have_is_lost(cluster: YarnCluster) -> None:
    assert cluster.status("driver-20200101000000-0000") is DriverState.LOST
    assert cluster.status("application_1_x") is DriverState.LOST
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
    assert cluster.links(ID) == cluster.overview([ID])[ID].links == running
    fake.add_app(state="ACCEPTED", amContainerLogs=None)
    assert cluster.links(ID) == page


def test_the_driver_and_its_applications_are_killed(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app()
    cluster.kill(ID, [ID])
    assert fake.asked.count(f"PUT apps/{ID}/state") == 1
    assert cluster.status(ID) is DriverState.KILLED
    cluster.kill(EARLIER)
    fake.answers[f"PUT apps/{ID}/state"] = (403, {"RemoteException": {"message": "x.YException: Not yours"}})
    with pytest.raises(ClusterError, match=rf"refused to kill {ID}: Not yours \(HTTP 403\)"):
        cluster.kill(ID)


# -- gone --------------------------------------------------------------------------------------------------------------


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
    assert not cluster.gone(ID, WHOSE)
    two.containers = []
    assert cluster.gone(ID, WHOSE)


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


def test_a_second_try_that_comes_a_moment_later_finds_the_driver_of_the_first(
    fake: FakeYarn, cluster: YarnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(manager: api.Manager, request: dict[str, Any]) -> None:
        fake.add_app(ID, applicationTags=",".join(request["application-tags"]["tag"]))
        raise ClusterError("already present", next_step="")

    monkeypatch.setattr(api, "submit", taken)
    assert cluster.submit(JOB, ID) == ID


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"environment": {"WHO": "$(id)"}}, r"WHO has '\$'"),
        ({"environment": {"WHAT": '{"a": 1}'}}, "WHAT has '\"'"),
        ({"environment": {"WHERE": "<CPS>"}}, "WHERE has '<CPS>'"),
        ({"conf": {"spark.driver.extraJavaOptions": "-Da='"}}, "No closing quotation"),
    ],
)
def test_what_no_driver_can_be_started_with_is_refused_by_the_check(
    fake: FakeYarn, cluster: YarnCluster, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        cluster.check(replace(JOB, **change))
    assert fake.asked == []


def test_a_manager_that_was_started_anew_knows_no_nodes_of_before(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node("node1", started=1_500_000_000_000)
    assert remains(cluster, {"node1"}, EARLIER).lost == (
        f"The ResourceManager was started anew, and does not know {EARLIER}.",
    )
    fake.add_app(EARLIER, state="KILLED")
    assert remains(cluster, {"node1"}, EARLIER).gone
    assert "YARN does not know the node node9, on which" in remains(cluster, {"node1", "node9"}, EARLIER).lost[0]


# -- away --------------------------------------------------------------------------------------------------------------


def test_without_a_manager_nothing_is_known(fake: FakeYarn) -> None:
    away = fake.cluster(**{ADDRESS: "http://127.0.0.1:1"})
    assert away.status(ID) is DriverState.UNKNOWN
    assert away.links(ID) == {}
    assert "No ResourceManager of YARN answers: http://127.0.0.1:1 cannot be reached." in remains(away).alive[0]
    for ask in (lambda: away.check(JOB), lambda: away.reserve(JOB), lambda: away.submit(JOB, ID)):
        with pytest.raises(ClusterError, match="No ResourceManager of YARN answers") as refused:
            ask()
        assert ADDRESS in refused.value.next_step
        assert not isinstance(refused.value, SubmitUnclear)
    for look in (lambda: away.find(WHOSE, 0.0), lambda: away.kill(ID), lambda: away.overview([ID])):
        with pytest.raises(ClusterError, match="No ResourceManager of YARN answers"):
            look()
