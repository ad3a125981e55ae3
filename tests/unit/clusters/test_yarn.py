"""Drivers on YARN: a ResourceManager and NodeManagers over real HTTP, which say what the real ones were seen to say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, FoundDrivers, Job, SubmitUnclear, status_of, yarn
from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.connection import ADDRESS
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from tests.support.fake_yarn import ID, STARTED, WHOSE, FakeYarn
from tests.support.jobs import job, noted

EARLIER = "application_1600000000000_0001"
JOB: Job = job(log=WHOSE.log)
QUEUE = {
    "queuePath": "root.default",
    "queueType": "leaf",
    "state": "RUNNING",
    "maximumAllocation": {"memory": 8192, "vCores": 4},
}


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
        (
            {"maxEffectiveCapacity": {"memory": 8192}, "resourcesUsed": {"memory": 8000}},
            "The queue root.default has no room: 8000 of its 8192 MiB are in use",
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
    # Only where there would be room without what runs: an upgrade may then end the old driver first.
    assert any(name.startswith("free_") for name in refused.value.fields) is ("no room" in said)


def test_full_nodes_are_told_with_what_is_asked(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_node().listed["availMemoryMB"] = 1500
    fake.add_node().listed["state"] = "UNHEALTHY"
    with pytest.raises(ClusterError) as refused:
        cluster.check(JOB)
    assert "1500 MiB are free on 1 node; the job asks for 1408 MiB for the driver, 2 executors" in refused.value.message
    assert refused.value.fields["free_memory"] == 1500


# -- exactly once ------------------------------------------------------------------------------------------------------


def test_an_id_is_noted_then_sent_once(fake: FakeYarn, cluster: YarnCluster) -> None:
    seen: list[tuple[str, DriverState, int]] = []

    def note(id: str) -> str:
        seen.append((id, status_of(cluster, id), len(fake.sent)))
        return id

    assert cluster.submit(JOB, note) == ID
    assert seen == [(ID, DriverState.RESERVED, 0)]
    assert cluster.submit(JOB, noted(ID)) == ID
    assert [each["application-id"] for each in fake.sent] == [ID]
    assert status_of(cluster, ID) is DriverState.RUNNING
    assert cluster.find(WHOSE, STARTED / 1000) == FoundDrivers((ID,))


def test_what_has_ended_is_not_sent_again(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app(state="FAILED")
    assert cluster.submit(JOB, noted(ID)) == ID
    assert fake.sent == []


def test_an_id_of_an_earlier_start_is_never_sent(fake: FakeYarn, cluster: YarnCluster) -> None:
    assert status_of(cluster, EARLIER) is DriverState.LOST
    with pytest.raises(ClusterError, match="was reserved before the ResourceManager was started anew"):
        cluster.submit(JOB, noted(EARLIER))
    assert fake.sent == []
    fake.add_app(EARLIER)  # it has kept its state
    assert cluster.submit(JOB, noted(EARLIER)) == EARLIER


@pytest.mark.parametrize("theirs", [{"user": "mallory"}, {"applicationTags": "airflow-stream,orders-2-1a2b"}])
def test_an_id_that_somebody_else_has_sent_is_not_taken_for_ours(
    fake: FakeYarn, cluster: YarnCluster, theirs: dict[str, str]
) -> None:
    """YARN answers 202 to a second POST of an id, whoever sent the first."""
    fake.add_app(**theirs)
    with pytest.raises(ClusterError, match="and not orders 2"):
        cluster.submit(JOB, noted(ID))
    assert fake.sent == []


def test_what_is_taken_and_not_stored_is_unclear(
    fake: FakeYarn, cluster: YarnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yarn, "TAKEN_SECONDS", 0.5)
    fake.forgets = True
    with pytest.raises(SubmitUnclear, match="has accepted"):
        cluster.submit(JOB, noted(ID))
    monkeypatch.setattr(yarn, "TAKEN_SECONDS", 60.0)
    fake.forgets = False
    assert cluster.submit(JOB, noted(ID)) == ID


def test_what_yarn_refuses_is_told(fake: FakeYarn, cluster: YarnCluster) -> None:
    message = "org.apache.hadoop.yarn.webapp.BadRequestException: App submission via REST is disabled."
    fake.answers["POST apps"] = (403, {"RemoteException": {"message": message}})
    with pytest.raises(ClusterError, match=r"refused the driver: App submission via REST is disabled \(HTTP 403\)"):
        cluster.submit(JOB, noted(ID))
    del fake.answers["POST apps"]
    fake.answers["POST apps/new-application"] = (401, {})
    with pytest.raises(ClusterError, match="HTTP 401, and wants Kerberos") as refused:
        cluster.submit(JOB)
    assert "Write principal and keytab" in refused.value.next_step


def test_a_queue_that_is_only_known_to_be_wrong_when_the_driver_is_sent_is_told(
    fake: FakeYarn, cluster: YarnCluster
) -> None:
    """Queues of other schedulers than the CapacityScheduler are not looked at before."""
    fake.add_node()
    fake.add_node()
    cluster.check(JOB)
    why = f"Application {ID} submitted by user alice to unknown queue: default"
    torn = "Last 9 bytes of stderr :\n-hunter2"
    fake.takes = {"state": "FAILED", "amContainerLogs": None, "diagnostics": f"{torn}\n{why}.\n"}
    with pytest.raises(ClusterError, match=rf"YARN has refused {ID}: .*\n{why}\.") as refused:
        cluster.submit(JOB, noted(ID))
    assert "hunter2" not in str(refused.value)
    assert refused.value.next_step.startswith("Correct the connection's queue")


def test_a_second_try_that_comes_a_moment_later_finds_the_driver_of_the_first(
    fake: FakeYarn, cluster: YarnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(manager: api.Manager, request: dict[str, Any]) -> None:
        fake.add_app(ID, applicationTags=",".join(request["application-tags"]["tag"]))
        raise ClusterError("already present", next_step="")

    monkeypatch.setattr(api, "submit", taken)
    assert cluster.submit(JOB, noted(ID)) == ID


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


def test_the_driver_and_its_applications_are_killed(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app()
    cluster.kill(ID, [ID])
    assert fake.asked.count(f"PUT apps/{ID}/state") == 1
    assert status_of(cluster, ID) is DriverState.KILLED
    cluster.kill(EARLIER)
    fake.answers[f"PUT apps/{ID}/state"] = (403, {"RemoteException": {"message": "x.YException: Not yours"}})
    with pytest.raises(ClusterError, match=rf"refused to kill {ID}: Not yours \(HTTP 403\)"):
        cluster.kill(ID)


def test_whose_an_application_is_its_tags_say(fake: FakeYarn, cluster: YarnCluster) -> None:
    fake.add_app()
    assert cluster.look([ID], WHOSE)[ID].ours is True
    assert cluster.look([ID], replace(WHOSE, log="ff" * 16))[ID].ours is False
    assert cluster.look([ID], replace(WHOSE, deployment="payments-1-a"))[ID].ours is False
    assert cluster.look([EARLIER], WHOSE)[EARLIER].ours is None
    assert cluster.look(["driver-20200101000000-0000"], WHOSE)["driver-20200101000000-0000"].ours is None


# -- away --------------------------------------------------------------------------------------------------------------


def test_without_a_manager_nothing_is_known(fake: FakeYarn) -> None:
    away = fake.cluster(**{ADDRESS: "http://127.0.0.1:1"})
    assert status_of(away, ID) is DriverState.UNKNOWN
    assert (
        "No ResourceManager of YARN answers: http://127.0.0.1:1 cannot be reached." in away.remains(ID, WHOSE).alive[0]
    )
    for ask in (lambda: away.check(JOB), lambda: away.submit(JOB), lambda: away.submit(JOB, noted(ID))):
        with pytest.raises(ClusterError, match="No ResourceManager of YARN answers") as refused:
            ask()
        assert ADDRESS in refused.value.next_step
        assert not isinstance(refused.value, SubmitUnclear)
    for look in (
        lambda: away.find(WHOSE, 0.0),
        lambda: away.kill(ID),
        lambda: away.look([ID]),
    ):
        with pytest.raises(ClusterError, match="No ResourceManager of YARN answers"):
            look()
