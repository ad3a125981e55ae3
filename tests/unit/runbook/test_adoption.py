"""The tasks of an adoption in the form's DAG: their order, whom they ask, and what they leave behind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from airflow_stream_provider.runbook.adoption import DiscardFollowerOperator, JobEndedOperator
from airflow_stream_provider.runbook.operate import operate_dag
from airflow_stream_provider.runbook.options import DagOptions
from airflow_stream_provider.spec.stream import load_spec
from tests.support.snapshots import snapshot

TASKS = ("stand_by", "job_ended", "adopt")


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


def ended(known: str = "") -> JobEndedOperator:
    return JobEndedOperator(task_id="job_ended", known=known, subject="Has it ended?", body="batch 7")


def test_nobody_is_asked_where_the_cluster_ends_the_job() -> None:
    with pytest.raises(AirflowSkipException, match="settled by driver-1"):
        ended("driver-1").execute({})


def test_a_person_is_asked_for_an_hour_and_gives_his_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    with pytest.raises(TaskAwaitingInput) as waiting:
        ended().execute({"task_instance": SimpleNamespace(id="1")})  # type: ignore[typeddict-item]
    assert waiting.value.timeout is not None
    assert waiting.value.timeout.total_seconds() == 3600
    assert sent["body"] == "batch 7"

    pushed: dict[str, str] = {}
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}
    yes = {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_at": datetime.now(UTC),
        "timedout": False,
        "responded_by_user": {"id": "1", "name": "ada"},
    }
    ended().execute_complete(context, yes)
    assert pushed == {"confirmed_by": "ada"}


def test_without_a_yes_nothing_is_adopted() -> None:
    no: dict[str, Any] = {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": "anna"}}
    with pytest.raises(AirflowFailException, match="anna said that the old job goes on"):
        ended().execute_complete({}, no)
    for error, says in (("timeout", "nobody said within 1:00:00"), ("other", "the answer cannot be used")):
        with pytest.raises(AirflowFailException, match=f"Nothing was adopted: {says}"):
            ended().process_trigger_event_error({"error": "x", "error_type": error})
