"""A standby beside the holder, against a real control log: what is returned, and when it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks.stream_releases import StreamReleases
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import published
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import RUNNING, UPGRADED
from tests.support.story import (
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    declared,
    hash_of,
    record,
    released,
    requested,
    submitted,
    wanted,
    write,
)
from tests.support.tasks import IDENTITY, context, run, waits
from tests.support.team import Standby
from tests.support.tries import Tries

MINE = "orders-2-1a2b3c4d"
DRIVER = f"{MINE}.00000009"
FAR = 4_000_000_000.0
# The wish of the task, and the deployment that serves it.
WISHED = [*RUNNING, wanted(IDENTITY.wish, "stand_by", by=IDENTITY.by)]
UP = [*WISHED, replace(declared(MINE, IDENTITY.wish), by=IDENTITY.by), submitted(MINE)]


def submit(spec: StreamSpec) -> SubmitStandbyOperator:
    return SubmitStandbyOperator(task_id="t", stream=spec)


CHECKED: dict[str, Any] = {"version": "1.9", "hash": hash_of("checked"), "application": "a.py"}


def published_for(log: ControlLog) -> Record:
    """A deployment of the wish whose release can be submitted."""
    one = published(log, MINE)
    return replace(one, fields={**one.fields, "family": IDENTITY.wish}, by=IDENTITY.by)


@pytest.mark.parametrize("given", [CHECKED, json.dumps(CHECKED)])
def test_what_was_checked_is_wished_whatever_the_yaml_says_now(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Release] = []
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: looked.append(release))
    monkeypatch.setattr(StreamReleases, "publish", None)
    write(log, *RUNNING)
    waits(SubmitStandbyOperator(task_id="t", stream=spec, checked=given))
    wish = log.refresh().candidate
    assert wish is not None
    assert Release.from_json(wish.option("release")) == Release.from_json(CHECKED) == looked[0]
    assert (wish.id, wish.option("redeployed"), wish.option("max_seconds")) == (IDENTITY.wish, None, 10.0)
    (deployment,) = log.refresh().family(IDENTITY.wish)
    assert deployment.release == Release.from_json(CHECKED)
    assert cluster.did == [("submit", "driver-1")]


@pytest.mark.parametrize("said", [True, "True", False, "False", ""])
def test_what_is_not_of_the_yaml_is_wished_as_such(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: None)
    asks = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approval": True})})
    waits(SubmitStandbyOperator(task_id="t", stream=asks, checked=CHECKED, redeployed=said))
    (wish,) = log.refresh().wishes.values()
    assert wish.option("redeployed") is (True if str(said) == "True" else None)
    assert wish.option("approval") is True, "its gate opens by a person's yes alone"


def test_what_is_to_be_read_again_is_declared(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: None)
    wanted = WantedRewind(1764000000.0, {"out": {"orders": {0: 7}}})
    waits(SubmitStandbyOperator(task_id="t", stream=spec, checked=CHECKED, rewind=json.dumps(wanted.to_json())))
    (deployment,) = log.refresh().deployments.values()
    assert deployment.rewind == wanted


def test_what_was_asked_for_before_a_stop_starts_nothing_after_it(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that had waited for another upgrade started the stream again, which somebody had stopped meanwhile."""
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: None)
    stop = wanted("rest", "stop", by="airflow:orders__operate/x/stop")
    write(log, *RUNNING, stop, requested("stop", None, wish="rest"), released(OLD, "stop", None))

    def begun(asked: float) -> None:
        triggered = SimpleNamespace(run_after=datetime.fromtimestamp(asked, UTC))
        task = SubmitStandbyOperator(task_id="t", stream=spec, checked=CHECKED)
        given: Any = {**context(), "dag_run": triggered}
        task.execute(given)

    with pytest.raises(
        AirflowFailException, match=r"stopped by airflow:orders__operate/x/stop .* since this was asked"
    ):
        begun(stop.at - 1)
    assert log.refresh().candidate is None
    with pytest.raises(TaskDeferred):
        begun(stop.at + 1)


def test_what_stood_by_before_makes_room_for_it(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: None)
    write(log, *UPGRADED)
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.RUNNING
    task = SubmitStandbyOperator(task_id="t", stream=spec, checked=CHECKED)
    assert waits(task) == {"condition": "DriversGone", "deployment": OLD_DEPLOYMENT, "grace_until": ANY}
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    waits(task)
    assert [r.kind for r in log.records()[len(UPGRADED) :]] == ["wanted", "retired", "declared", "submitted"]
    assert log.refresh().holder == NEW


@pytest.mark.parametrize("given", ["{", "[1]", '{"hash": ""}', '{"version": "1", "hash": "../.."}'])
def test_what_no_check_has_left_is_refused(spec: StreamSpec, log: ControlLog, given: str) -> None:
    with pytest.raises(AirflowFailException, match=r"`checked` is not what|is not a"):
        run(SubmitStandbyOperator(task_id="t", stream=spec, checked=given))
    assert log.records() == []


def test_it_waits_until_the_standby_is_up_and_leaves_the_holder_alone(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UP)
    condition = waits(submit(spec))
    assert (condition["condition"], condition["deployment"]) == ("StandbyUp", MINE)
    rehearsal = {"seconds": 3.5}
    write(log, record("standby", deployment=MINE, incarnation=DRIVER, queries=[], rehearsal=rehearsal))
    result = run(submit(spec), WaitOutcome(Ended.REACHED, MINE))
    assert (result["deployment"], result["incarnation"], result["rehearsal"]) == (MINE, DRIVER, rehearsal)
    assert (result["holder"], log.refresh().holder, cluster.did) == (OLD_DEPLOYMENT, OLD, [])


def test_a_driver_that_is_dead_before_it_was_up_is_put_on_record(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UP)
    cluster.logs[f"driver-{MINE}"] = "  | Boom."
    for event in (WaitOutcome(Ended.GONE, MINE, "it is gone"), None):  # and when the task is cleared
        with pytest.raises(AirflowFailException, match="Its driver never came up: it is gone") as failed:
            run(submit(spec), event)
        assert str(failed.value).endswith("\nThe end of the log of its driver:\n  | Boom.")
    assert log.records()[-1].kind == "failed"
    assert "Boom" not in str(log.records()), "the control log is for more people than a task"


def test_a_driver_that_runs_and_says_nothing_is_warned_of_with_the_end_of_its_log(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UP)
    cluster.logs[f"driver-{MINE}"] = "  | The control log cannot be used now. Trying again."
    cluster.states[f"driver-{MINE}"] = DriverState.RUNNING
    task = Tries(Standby(task_id="t", stream=spec))
    assert task.said == ""
    task.go_on(WaitOutcome(Ended.EXPIRED, MINE, "it is mute", deadline=FAR))
    assert task.deferred is not None
    assert task.said == (
        f"The driver of {MINE} has not written to the control log yet. The driver is running.\n"
        "The end of the log of its driver:\n  | The control log cannot be used now. Trying again.\n"
    )
    task.go_on(WaitOutcome(Ended.TIMEOUT, reason="Timed out.", evidence={OLD: "running"}))
    assert task.error.endswith("Trying again.")
    task.go_on(WaitOutcome(Ended.TIMEOUT, reason="Timed out.", evidence={DRIVER: "rehearsing"}))
    assert task.error.endswith("from the control log."), "it can say itself what it does"


def test_a_driver_that_is_queued_for_long_is_warned_of_with_what_the_cluster_says(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *WISHED, published_for(log), submitted(MINE))
    cluster.states[f"driver-{MINE}"] = DriverState.QUEUED
    cluster.full = ClusterError("The driver's pod waits: ImagePullBackOff.")
    task = Tries(Standby(task_id="t", stream=spec))
    task.go_on(WaitOutcome(Ended.EXPIRED, MINE, "it is mute", deadline=FAR))
    assert task.deferred is not None, "it may be started yet"
    assert task.said == (
        f"The driver of {MINE} has not written to the control log yet. The cluster accepted the driver, and has not "
        "started it yet. The driver's pod waits: ImagePullBackOff.\n"
    )


def test_a_driver_that_has_said_why_needs_no_log(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    said = record("failed", deployment=MINE, incarnation=DRIVER, reason="it broke", error="Error: Bang.")
    write(log, *UP, said)
    cluster.logs[f"driver-{MINE}"] = "  | Boom."
    with pytest.raises(AirflowFailException) as failed:
        run(submit(spec))
    assert "Boom" not in str(failed.value)


def test_an_id_that_a_dead_try_wrote_down_and_never_sent_is_sent_by_the_next_one(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *WISHED, published_for(log), submitted(MINE))
    reserved = f"driver-{MINE}"
    cluster.states[reserved] = DriverState.RESERVED
    cluster.reserves.append("driver-of-the-next-try")
    waits(submit(spec))
    assert cluster.did == [("submit", reserved)]
