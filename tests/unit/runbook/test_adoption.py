"""The tasks of an adoption in the form's DAG: their order, whom they ask, and what they leave behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import DeploymentEnd, StreamPhase
from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.waits import WaitOutcome
from airflow_stream_provider.runbook.adoption import DiscardFollowerOperator, JobEndedOperator
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.operate import operate_dag
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS
from tests.support.control_root import log_of
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import ME
from tests.support.story import acquired, ending, following, ready, requested, standby, submitted, wanted
from tests.support.tasks import lives, spec_in

TASKS = ("stand_by", "job_ended", "adopt")
DEPLOYMENT = "orders-1-aaaa"
DRIVER = f"{DEPLOYMENT}.00000001"
RUN = {"ti": SimpleNamespace(dag_id=ME.dag_id, run_id=ME.run_id, task_id="job_ended", map_index=None)}


@pytest.fixture
def dag(streams: Path) -> DAG:
    return operate_dag(load_spec(streams / "orders.yaml"), DagOptions())


def test_they_stand_beside_the_other_operations(dag: DAG) -> None:
    assert dag.get_task("confirm").downstream_task_ids == {"stop", "stand_by"}
    assert dag.get_task("stand_by").downstream_task_ids == {"job_ended"}
    assert dag.get_task("job_ended").downstream_task_ids == {"adopt"}
    assert dag.get_task("adopt").downstream_task_ids == {"discard", "tell"}
    assert dag.get_task("discard").is_teardown, "it runs after a failure, and when the run is marked as failed"


def test_they_run_for_an_adoption_alone(dag: DAG) -> None:
    for parts, skipped in ((["adopt"], False), (["stop"], True), ([], True)):
        context: Any = {"ti": SimpleNamespace(xcom_pull=lambda task_ids, parts=parts: {"parts": parts})}
        for name in TASKS:
            task: Any = dag.get_task(name)
            try:
                task._pre_execute_hook(context)
            except AirflowSkipException:
                assert skipped
            else:
                assert not skipped


@pytest.mark.parametrize("family", ["f", None])
def test_only_what_was_brought_up_is_discarded(dag: DAG, family: str | None) -> None:
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda task_ids, key: family)}
    task: Any = dag.get_task("discard")
    if family:
        task._pre_execute_hook(context)
    else:
        with pytest.raises(AirflowSkipException):
            task._pre_execute_hook(context)


def adopts(by: str) -> list[Record]:
    """A follower that a task or a command has wished and brought up."""
    first = wanted("adopt", by=by, policy={"adopts": True}, adopts=True)
    return [first, following(DEPLOYMENT, "adopt"), submitted(DEPLOYMENT), standby(DRIVER)]


def discard(spec: StreamSpec, **more: Any) -> DiscardFollowerOperator:
    return DiscardFollowerOperator(task_id="discard", stream=spec, reason="It did not adopt the job.", **more)


def run_of(operator: DiscardFollowerOperator, outcome: WaitOutcome | None = None) -> Any:
    """Begin a try; with an outcome, continue it after its wait."""
    context: Any = {"ti": SimpleNamespace(**vars(RUN["ti"]), xcom_push=lambda key, value: None)}
    return operator.execute(context) if outcome is None else operator.resume(context, outcome.to_event())


def test_an_adoption_that_was_given_up_stops_the_stream_and_ends_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_in(tmp_path)
    log = log_of(spec.control, *adopts(f"{ME.run}stand_by"), ending(DEPLOYMENT, ""))
    cluster = NotingCluster()
    cluster.states[f"driver-{DEPLOYMENT}"] = DriverState.FINISHED
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_CONNECTION", "spark://master")
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_KAFKA", "kafka://")
    monkeypatch.setattr(stream, "open_cluster", lambda connection: cluster)
    with pytest.raises(AirflowFailException, match="did not take over, and is ended"):
        run_of(discard(spec))
    state = log.refresh()
    assert (state.phase, state.job) == (StreamPhase.STOPPED, None)
    assert state.deployments[DEPLOYMENT].ended is DeploymentEnd.RETIRED
    assert [r["reason"] for r in log.records()[-2:]] == [
        "It did not adopt the job.",
        "The stream was stopped: It did not adopt the job.",
    ]


def test_a_run_leaves_the_follower_of_another(tmp_path: Path) -> None:
    """Two runs ask for the same adoption: the second goes on with the follower of the first, which may ask still."""
    spec = spec_in(tmp_path)
    other = "airflow:orders__operate/other/stand_by"
    log = log_of(spec.control, *adopts(other), wanted("mine", family="adopt", by=f"{ME.run}stand_by"))
    with pytest.raises(AirflowSkipException, match=f"was brought up by {other}"):
        run_of(discard(spec))
    assert len(log.records()) == 5


def test_an_adoption_that_went_well_is_kept(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    over = [requested("r", DRIVER, wish="adopt", evidence={"person": "ada"}), ready("r", DRIVER)]
    log = log_of(spec.control, *adopts(f"{ME.run}stand_by"), *over, acquired(DRIVER, "r", 1))
    with pytest.raises(AirflowSkipException, match="It went well"):
        run_of(discard(spec, well="True"))
    with pytest.raises(AirflowSkipException, match="There is nothing to discard"):
        run_of(discard(spec), lives(DRIVER))
    assert len(log.records()) == 7


def ended(spec: StreamSpec, known: str = "") -> JobEndedOperator:
    return JobEndedOperator(
        task_id="job_ended", stream=spec, deployment=DEPLOYMENT, known=known, subject="Has it ended?", body="batch 7"
    )


def test_nobody_is_asked_where_the_cluster_ends_the_job(tmp_path: Path) -> None:
    with pytest.raises(AirflowSkipException, match="settled by driver-1"):
        ended(spec_in(tmp_path), "driver-1").execute({})


def test_a_person_is_asked_for_an_hour_while_the_follower_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_in(tmp_path)
    log = log_of(spec.control, *adopts("x"), ending(DEPLOYMENT, ""))
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    context: Any = {"task_instance": SimpleNamespace(id="0197c1de-0000-7000-8000-000000000001"), **RUN}
    with pytest.raises(TaskDeferred) as waiting:
        ended(spec).execute(context)
    assert len(log.records()) == 5, "that a person is asked was written before"
    assert waiting.value.timeout == timedelta(hours=1) + timedelta(seconds=TRIGGER_GRACE_SECONDS)
    path, waits = waiting.value.trigger.serialize()
    assert path == "airflow_stream_provider.triggers.stream.ApprovalTrigger"
    assert waits["condition"] == Answered(DEPLOYMENT, "").to_json()
    assert sent["body"] == "batch 7"


def test_a_no_is_known_by_name_and_is_why_what_follows_is_discarded(dag: DAG, tmp_path: Path) -> None:
    pushed: dict[str, str] = {}
    no = {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": "ada"}}
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}
    with pytest.raises(AirflowFailException, match="ada said no"):
        ended(spec_in(tmp_path)).execute_complete(context, no)
    assert pushed == {"rejected_by": "ada"}
    left = {("job_ended", "rejected_by"): "ada"}
    task: Any = dag.get_task("discard")
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key=None: left.get((task_ids, key)))
    task.render_template_fields({"ti": ti}, dag.get_template_env())
    assert (task.reason, task.well) == ("The old job goes on, by the word of ada.", "")


def test_who_says_that_the_job_is_gone_is_known_by_name(tmp_path: Path) -> None:
    pushed: dict[str, str] = {}
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}
    yes = {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_at": datetime.now(UTC),
        "timedout": False,
        "responded_by_user": {"id": "1", "name": "ada"},
    }
    ended(spec_in(tmp_path)).execute_complete(context, yes)
    assert pushed == {"confirmed_by": "ada"}
