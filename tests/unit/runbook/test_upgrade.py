"""The upgrade's DAG: its order of tasks, and its form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, TriggerRule
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowSkipException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.operators.upgrade import SoakOperator
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.later import RetireLaterOperator
from airflow_stream_provider.runbook.question import ApproveUpgradeOperator
from airflow_stream_provider.runbook.upgrade import retire_dag, upgrade_dag
from airflow_stream_provider.spec.stream import load_spec
from tests.support.spec_text import SPEC


def upgrade(streams: Path, name: str = "orders", **options: Any) -> DAG:
    return upgrade_dag(load_spec(streams / f"{name}.yaml"), DagOptions(**options))


def test_its_tasks_have_their_order(streams: Path) -> None:
    dag = upgrade(streams)
    order = ["check", "submit", "judge", "approve", "hand_over", "soak", "retire", "report"]
    for before, after in pairwise(order):
        assert after in dag.get_task(before).downstream_task_ids
    assert dag.get_task("roll_back").upstream_task_ids == {"soak"}
    assert dag.get_task("report").upstream_task_ids == {"roll_back", "retire"}
    assert dag.get_task("roll_back").is_teardown, "it runs after any failure, and when the run is marked as failed"
    assert dag.max_active_runs == 1
    assert dag.get_task("check").retries == 0


def test_the_old_release_is_retired_by_the_dag_of_the_same_prefix(streams: Path) -> None:
    retire = upgrade(streams, prefix="p.").get_task("retire")
    assert isinstance(retire, RetireLaterOperator)
    spec = load_spec(streams / "orders.yaml")
    assert retire.trigger_dag_id == "p.orders__retire" == retire_dag(spec, DagOptions(prefix="p.")).dag_id


def test_the_form_starts_with_what_the_yaml_says(streams: Path) -> None:
    form = upgrade(streams).params
    assert form["version"] == "v1"
    assert form["strategy"] == "handover"
    assert form.get_param("strategy").schema["enum"] == ["handover", "restart"]
    assert form["arguments"] == []


def test_an_edit_of_the_arguments_leaves_the_tasks_of_a_run_that_has_begun(streams: Path) -> None:
    """Airflow looks at the form before every task; that others are refused is tested with `RequestedRelease.check`."""
    free = SPEC.format(name="free") + "arguments: [--a]\nupgrade: {free_arguments: true}\n"
    (streams / "free.yaml").write_text(free)
    for name, says in (("orders", "The YAML allows no others"), ("free", "")):
        form = upgrade(streams, name).params.get_param("arguments")
        assert form.resolve(["-n1"]) == ["-n1"]
        assert says in (form.description or "")


@pytest.mark.parametrize("strategy", ["handover", "restart"])
def test_an_edit_of_the_strategy_leaves_the_tasks_of_a_run_that_has_begun(streams: Path, strategy: str) -> None:
    """Also with an approval, where `check` refuses another one than the YAML's."""
    asked = SPEC.format(name="asked") + f"upgrade: {{approval: true, strategy: {strategy}}}\n"
    (streams / "asked.yaml").write_text(asked)
    other = {"handover": "restart", "restart": "handover"}[strategy]
    for name, says in (("orders", False), ("asked", True)):
        form = upgrade(streams, name).params.get_param("strategy")
        assert form.resolve(other) == other
        assert (f"`check` refuses any but {strategy}" in str(form.schema["description_md"])) is says
    assert upgrade(streams, "asked").params["strategy"] == strategy


@pytest.mark.parametrize(("left", "strategy"), [({"strategy": "restart"}, "restart"), ({}, ""), (None, "")])
def test_the_old_release_is_stopped_first_only_if_check_says_so(streams: Path, left: Any, strategy: str) -> None:
    """Not if the form does: its values may be those of an edited YAML by then."""
    dag = upgrade(streams)
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key="": {"check": left}.get(task_ids))
    context: Any = {
        "ti": ti,
        **run_of(DagRunType.MANUAL, "any"),
        "params": {**dag.params.dump(), "strategy": "restart"},
    }
    for name in ("hand_over", "approve"):
        task: Any = dag.get_task(name)
        task.render_template_fields(context, dag.get_template_env())
        assert task.strategy == strategy
    submit: Any = dag.get_task("submit")
    if strategy:
        with pytest.raises(AirflowSkipException):
            submit._pre_execute_hook(context)
    else:
        submit._pre_execute_hook(context)


@pytest.mark.parametrize(
    ("judged", "yes", "approved"),
    [
        ({"verdict": "pass"}, None, "judged: pass"),
        ({"verdict": "pass"}, "anna", "anna"),
        ({"verdict": "inconclusive"}, "anna", "anna"),
        ({"verdict": "inconclusive"}, None, ""),
        (None, None, ""),
    ],
)
def test_the_gate_opens_by_a_verdict_or_by_a_person(streams: Path, judged: Any, yes: str | None, approved: str) -> None:
    dag = upgrade(streams)
    task: Any = dag.get_task("hand_over")
    left = {("judge", None): judged, ("approve", "approved_by"): yes, ("submit", "family"): "f"}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key=None: left.get((task_ids, key)))
    context: Any = {"ti": ti, **run_of(DagRunType.MANUAL, "any"), "params": dag.params.dump()}
    task.render_template_fields(context, dag.get_template_env())
    assert (task.approved, task.family) == (approved, "f")


@pytest.mark.parametrize(("handed", "family"), [("mine", "mine"), (None, "submitted")])
def test_later_tasks_know_the_release_by_the_wish_that_brought_it_in(
    streams: Path, handed: str | None, family: str
) -> None:
    dag = upgrade(streams)
    left = {("hand_over", "family"): handed, ("submit", "family"): "submitted"}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key=None: left.get((task_ids, key)))
    context: Any = {"ti": ti, "params": dag.params.dump(), "run_id": "r"}
    for name in ("soak", "roll_back", "report"):
        task: Any = dag.get_task(name)
        task.render_template_fields(context, dag.get_template_env())
        assert task.family == family
    judge: Any = dag.get_task("judge")
    judge.render_template_fields(context, dag.get_template_env())
    assert judge.family == "submitted"


@pytest.mark.parametrize(("left", "approval"), [({"approval": True}, "True"), ({"approval": False}, "False"), ({}, "")])
def test_whether_a_person_is_asked_was_checked_when_the_run_began(streams: Path, left: Any, approval: str) -> None:
    dag = upgrade(streams)
    task: Any = dag.get_task("approve")
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key="": {"check": left}.get(task_ids))
    task.render_template_fields({"ti": ti, "params": dag.params.dump()}, dag.get_template_env())
    assert task.approval == approval


@pytest.mark.parametrize(
    ("left", "version"), [({"release": {"version": "v1", "arguments": ["<'\""]}}, "v1"), ({}, "v2"), (None, "v2")]
)
def test_what_was_checked_is_submitted_though_the_form_says_otherwise_by_then(
    streams: Path, left: Any, version: str
) -> None:
    dag = upgrade(streams)
    task: Any = dag.get_task("submit")
    ti = SimpleNamespace(xcom_pull=lambda task_ids: {"check": left}[task_ids])
    context: Any = {"ti": ti, **run_of(DagRunType.MANUAL, "any"), "params": {**dag.params.dump(), "version": "v2"}}
    task.render_template_fields(context, dag.get_template_env())
    assert (task._release.version if left else task.version) == version
    if left:
        assert task._release.arguments == ("<'\"",)


def test_reason_and_stored_release_reach_their_tasks(streams: Path) -> None:
    dag = upgrade(streams)
    assert (dag.params["release"], dag.params["reason"]) == (None, None)
    left = {"check": {"release": {"version": "v1"}, "redeployed": False, "rewind": '{"to": 1.0}'}}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key="": left.get(task_ids))
    context: Any = {
        "ti": ti,
        **run_of(DagRunType.MANUAL, "manual__1"),
        "params": {**dag.params.dump(), "release": "abcd", "reason": "2 is no good", "rewind": "{}"},
    }
    tasks: dict[str, Any] = {name: dag.get_task(name) for name in ("check", "submit", "hand_over")}
    for task in tasks.values():
        task.render_template_fields(context, dag.get_template_env())
        assert task.reason == "2 is no good"
    assert tasks["check"].stored == "abcd"
    assert tasks["submit"].redeployed == tasks["hand_over"].redeployed == "True"
    assert tasks["check"].rewind == tasks["submit"].rewind == "{}", "of whoever has triggered it, and not from XCom"


@pytest.mark.parametrize("version", ["1 [payments-2]", 'a"b', "a\nb", ""])
def test_the_form_takes_no_version_that_is_no_label(streams: Path, version: str) -> None:
    with pytest.raises(ParamValidationError):
        upgrade(streams).params.get_param("version").resolve(version)


def test_a_person_can_always_be_asked_and_whoever_is_not_does_not_hold_up_the_hand_over(streams: Path) -> None:
    approve = upgrade(streams).get_task("approve")
    assert isinstance(approve, ApproveUpgradeOperator)
    assert approve.response_timeout == timedelta(hours=1)
    # Skipped, it would skip what follows; failed, it must not let it run.
    assert upgrade(streams).get_task("hand_over").trigger_rule is TriggerRule.NONE_FAILED


@pytest.mark.parametrize(("key", "why"), [("fault", "It is behind."), ("inconclusive", "It is slower."), ("", "")])
def test_only_a_fault_is_rolled_back_and_the_report_tells_either(streams: Path, key: str, why: str) -> None:
    dag = upgrade(streams)
    said = {("soak", key): why}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key=None: said.get((task_ids, key)))
    context: Any = {"ti": ti, "params": dag.params.dump(), "run_id": "r"}
    report: Any = dag.get_task("report")
    back: Any = dag.get_task("roll_back")
    for each in (report, back):
        each.render_template_fields(context, dag.get_template_env())
    assert report.fault == why
    assert (back.fault, back.well) == (why if key == "fault" else "", "")
    assert back.reason == (why if key == "fault" else "It did not take over.")


def test_after_a_soak_that_ended_well_nothing_is_undone(streams: Path) -> None:
    dag = upgrade(streams)
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key=None: {"result": "good"} if task_ids == "soak" else None)
    context: Any = {"ti": ti, "params": dag.params.dump(), "run_id": "r"}
    back: Any = dag.get_task("roll_back")
    back.render_template_fields(context, dag.get_template_env())
    assert back.well == "good"


def test_a_no_is_the_reason_of_what_follows(streams: Path) -> None:
    dag = upgrade(streams)
    said = {("approve", "rejected_by"): "anna"}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key=None: said.get((task_ids, key)))
    context: Any = {"ti": ti, "params": dag.params.dump(), "run_id": "r"}
    back: Any = dag.get_task("roll_back")
    back.render_template_fields(context, dag.get_template_env())
    assert back.reason == "Rejected by anna."


def test_a_stream_may_come_from_the_default_arguments(streams: Path) -> None:
    spec = load_spec(streams / "orders.yaml")
    with DAG("d", default_args={"stream": spec}):
        assert SoakOperator(task_id="soak", family="x").seconds == 600  # type: ignore[call-arg]


def first_run(dag: DAG) -> datetime:
    """When Airflow's scheduler begins the first scheduled run."""
    found = DagSerialization.from_dict(DagSerialization.to_dict(dag)).next_dagrun_info(last_automated_run_info=None)
    assert found is not None
    return found.run_after


def test_a_schedule_that_is_new_upgrades_nothing_before_its_time(streams: Path) -> None:
    """It began at once, with the last time before: whoever wrote "Sundays" on a Thursday had an upgrade in a minute."""
    now = datetime.now(UTC)
    for hours, due in ((1, now), (-1, now)):
        at = now + timedelta(hours=hours)
        cron = f"{at.minute} {at.hour} * * {(at.weekday() + 1) % 7}"
        (streams / "weekly.yaml").write_text(SPEC.format(name="weekly") + f'upgrade: {{schedule: "{cron}"}}\n')
        assert first_run(upgrade(streams, "weekly")) > due
        assert first_run(upgrade(streams, "weekly", default_args={"start_date": now - timedelta(days=99)})) > due
    # The scheduler may come to it a moment late, and the DAG file may be read anew in that moment.
    (streams / "weekly.yaml").write_text(SPEC.format(name="weekly") + 'upgrade: {schedule: "* * * * *"}\n')
    assert first_run(upgrade(streams, "weekly")) <= datetime.now(UTC)


def run_of(kind: DagRunType, run_id: str) -> Any:
    return {"dag_run": SimpleNamespace(run_type=kind, run_id=run_id)}


def test_it_may_have_a_schedule(streams: Path) -> None:
    assert upgrade(streams).schedule is None
    (streams / "weekly.yaml").write_text(SPEC.format(name="weekly") + 'upgrade: {schedule: "0 4 * * 0"}\n')
    weekly = upgrade(streams, "weekly")
    weekly.validate()
    timetable: Any = weekly.timetable
    assert (timetable.expression, weekly.catchup) == ("0 4 * * 0", False)
    check: Any = weekly.get_task("check")

    def unasked(kind: DagRunType, run: str) -> bool:
        text = check.render_template(check.unasked, run_of(kind, run))
        return {"True": True, "False": False}[text]

    assert [kind for kind in DagRunType if unasked(kind, f"{kind}__1")] == [DagRunType.SCHEDULED]
    by_a_task = getattr(DagRunType, "OPERATOR_TRIGGERED", DagRunType.MANUAL)  # Airflow 3.2 does not tell them apart
    assert unasked(by_a_task, "change__1a__weekly-1"), "by the watch, for `upgrade.on_change`"
    assert unasked(by_a_task, "refresh__weekly-1"), "by the watch, for `upgrade.refresh`"
    assert not unasked(by_a_task, "operate__manual__1"), "by the form"
    for schedule in ("weekly", "0 4 31 2 *"):
        (streams / "wrong.yaml").write_text(SPEC.format(name="wrong") + f"upgrade: {{schedule: {schedule}}}\n")
        with pytest.raises(SpecError, match=r"line \d+, upgrade.schedule: is no cron expression"):
            upgrade(streams, "wrong")
