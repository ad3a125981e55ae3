"""A fence against a real control log: by a person's word, or by the cluster's."""

from __future__ import annotations

import time

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.operators.stream import FenceOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, TWIN, standby, write
from tests.support.tasks import IDENTITY, run


def test_a_person_can_say_that_a_driver_is_dead(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    operator = FenceOperator(
        task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, reason="The rack burnt down.", confirmed_by="Ada"
    )
    assert run(operator)["fenced"] == [OLD]
    fenced = log.records()[-1]
    assert (fenced.kind, fenced["reason"], fenced["evidence"]) == ("fenced", "The rack burnt down.", {"person": "Ada"})
    assert run(operator)["fenced"] == [OLD]


@pytest.mark.parametrize("age", [0.5, -3.0, 29.0])
def test_a_person_is_not_believed_while_the_driver_beats(spec: StreamSpec, log: ControlLog, age: float) -> None:
    """What was shown when he said so may be an hour old."""
    write(log, *BOTH)
    log.store.put_heartbeat(OLD, Heartbeat(counter=900, at=time.time() - age).to_json())
    with pytest.raises(AirflowFailException, match=f"{OLD} was alive .* ago, by its heartbeat: it cannot be gone"):
        run(FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, confirmed_by="Ada"))
    assert log.refresh().holder == OLD
    log.store.put_heartbeat(OLD, Heartbeat(counter=901, at=time.time() - 3600).to_json())
    assert run(FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, confirmed_by="Ada"))["fenced"] == [
        OLD
    ]


def test_a_person_speaks_for_every_driver_of_the_deployment(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH, standby(TWIN))
    operator = FenceOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, confirmed_by="Ada")
    assert run(operator)["fenced"] == [NEW, TWIN]
    assert {r["reason"] for r in log.records() if r.kind == "fenced"} == {IDENTITY.by}


def test_without_a_person_the_driver_is_killed_and_the_cluster_has_to_confirm_it(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *BOTH)
    operator = FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT)
    with pytest.raises(TaskDeferred) as deferred:
        run(operator)
    assert cluster.did == [("kill", f"driver-{OLD_DEPLOYMENT}")]
    assert deferred.value.trigger.serialize()[1]["condition"]["incarnation"] == OLD
    declared = log.records()[-1]
    assert (declared.kind, declared["incarnation"], declared["reason"]) == ("fencing", OLD, IDENTITY.by)
    assert run(operator, WaitOutcome(Ended.DEAD, OLD, evidence={"cluster": "gone"}))["fenced"] == [OLD]
    assert log.records()[-1]["evidence"] == {"cluster": "gone"}


def test_a_deployment_that_is_not_known_is_skipped(spec: StreamSpec, log: ControlLog) -> None:
    with pytest.raises(AirflowSkipException, match="There is no deployment 'none'"):
        run(FenceOperator(task_id="t", stream=spec, deployment="none", confirmed_by="Ada"))


def test_a_template_of_an_empty_field_is_no_person(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    """Two drivers would write: nobody has made sure of anything, and the cluster would not be asked."""
    write(log, *BOTH)
    template = FenceOperator(
        task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, confirmed_by="{{ params.confirmed_by }}"
    )
    template.render_template_fields({"params": {"confirmed_by": None}})
    with pytest.raises(AirflowFailException, match="'None' is what a template makes"):
        run(template)
    assert (len(log.records()), cluster.did) == (len(BOTH), [])
