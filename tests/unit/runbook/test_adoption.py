"""The tasks of an adoption in the form's DAG: their order, whom they ask, and what they leave behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.steps import Append, Skip
from airflow_stream_provider.runbook.adoption import DiscardFollowerOperator, JobEndedOperator
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.operate import operate_dag
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS
from tests.support.control_root import log_of, new_log
from tests.support.snapshots import ME, snapshot
from tests.support.story import ending, following, standby, submitted, write
from tests.support.tasks import spec_in

TASKS = ("stand_by", "job_ended", "adopt")
DEPLOYMENT = "orders-1-aaaa"
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


@pytest.mark.parametrize("deployment", ["orders-1-aaaa", None])
def test_only_what_stands_by_is_discarded(dag: DAG, deployment: str | None) -> None:
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda task_ids, key: deployment)}
    task: Any = dag.get_task("discard")
    if deployment:
        task._pre_execute_hook(context)
    else:
        with pytest.raises(AirflowSkipException):
            task._pre_execute_hook(context)


def test_an_adoption_of_which_something_was_left_has_failed() -> None:
    discard = DiscardFollowerOperator.__new__(DiscardFollowerOperator)
    with pytest.raises(AirflowFailException, match=r"orders-1-aaaa did not take over, and is ended\."):
        discard.result(snapshot(), {"retired": "orders-1-aaaa"})


def mine(by: str) -> Record:
    """The record of a follower that is declared by a task or a command."""
    return replace(following(DEPLOYMENT), by=by)


@pytest.mark.parametrize(
    ("by", "ends"), [(f"{ME.run}stand_by", True), ("airflow:orders__operate/other/stand_by", False)]
)
def test_a_run_ends_its_own_follower_and_leaves_that_of_another(dag: DAG, by: str, ends: bool) -> None:
    """Two runs ask for the same adoption: the second goes on with the follower of the first, which may ask still."""
    discard: Any = dag.get_task("discard")
    discard.deployment = DEPLOYMENT
    step = discard.plan(snapshot(mine(by)), ME, None)
    if ends:
        assert isinstance(step, Append)
        assert step.kind == "retired"
    else:
        assert isinstance(step, Skip)
        assert step.reason.startswith(f"{DEPLOYMENT} was brought up by {by}, and is left to that.")


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
    log_of(spec.control, mine("x"), submitted(DEPLOYMENT), standby(f"{DEPLOYMENT}.00000001"))
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    context: Any = {"task_instance": SimpleNamespace(id="0197c1de-0000-7000-8000-000000000001"), **RUN}
    for _ in range(2):  # a retry says it no more
        with pytest.raises(TaskDeferred) as waiting:
            ended(spec).execute(context)
    last = new_log(spec.control, spec.name).records()[3:]
    assert [(each.kind, each.by, each["deployment"], each["job"]) for each in last] == [
        ("ending", f"{ME.run}job_ended", DEPLOYMENT, "")
    ], "before he is asked"
    assert waiting.value.timeout == timedelta(hours=1) + timedelta(seconds=TRIGGER_GRACE_SECONDS)
    path, waits = waiting.value.trigger.serialize()
    assert path == "airflow_stream_provider.triggers.stream.ApprovalTrigger"
    assert waits["condition"] == Answered(DEPLOYMENT, "").to_json()
    assert sent["body"] == "batch 7"


def test_whoever_says_no_says_that_the_old_job_goes_on(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    log = new_log(spec.control, spec.name)
    write(
        log, mine(f"{ME.run}stand_by"), submitted(DEPLOYMENT), standby(f"{DEPLOYMENT}.00000001"), ending(DEPLOYMENT, "")
    )
    no = {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": "ada"}}
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: None, **vars(RUN["ti"]))}
    with pytest.raises(AirflowFailException, match="ada said no"):
        ended(spec).execute_complete(context, no)
    last = log.records()[-1]
    assert (last.kind, last["reason"]) == ("stopped", "The old job goes on, by the word of ada.")
    assert log.refresh().phase is StreamPhase.STOPPED


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
