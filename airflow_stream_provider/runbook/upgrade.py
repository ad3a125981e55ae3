"""The DAG that upgrades a stream, and the one that ends the release before."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, BaseOperator, Context, CronTriggerTimetable, Param, TriggerRule
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.lifecycle.ids import VERSION
from airflow_stream_provider.lifecycle.wish import JUDGED
from airflow_stream_provider.notifications.upgrade import ApprovalNotifier, UpgradeNotifier
from airflow_stream_provider.operators.check import CheckReleaseOperator
from airflow_stream_provider.operators.stream import RetireOperator, RollBackOperator
from airflow_stream_provider.operators.upgrade import (
    JudgeRehearsalOperator,
    SoakOperator,
    SubmitStandbyOperator,
    TakeOverOperator,
)
from airflow_stream_provider.planning.operation import MAX_REASON
from airflow_stream_provider.runbook.form import (
    DIGITS,
    DagOptions,
    lines,
    listed,
    optional,
    required,
    said,
    said_lines,
    value,
)
from airflow_stream_provider.runbook.later import ReportUpgradeOperator, RetireLaterOperator
from airflow_stream_provider.runbook.question import ApproveUpgradeOperator
from airflow_stream_provider.runbook.words import RETIRE, UPGRADE, group, task
from airflow_stream_provider.spec.stream import Strategy, StreamSpec
from airflow_stream_provider.spec.watched import CHANGE, REFRESH


def _unless_restart(context: Context) -> None:
    """Skip a task that needs room for two drivers, where `check` has found that there is none."""
    if (context["ti"].xcom_pull(task_ids="check") or {}).get("strategy") == Strategy.RESTART.value:
        raise AirflowSkipException("By the strategy `restart` the old release stops first, and nothing is rehearsed.")


_RELEASE = {
    "version": said("version"),
    "application": said("application"),
    "arguments": said_lines("arguments"),
    "changed_checkpoints": said_lines("changed_checkpoints"),
    "no_way_back": "{{ params.no_way_back }}",
    "rewind": said("rewind"),
    "reason": said("reason"),
}
# By its id and not by its type: an upgrade that a person has asked for by the form is triggered by a task, too.
_UNASKED = f"{{{{ dag_run.run_type == 'scheduled' or dag_run.run_id.startswith(('{CHANGE}', '{REFRESH}')) }}}}"
# How late the first run of a schedule may begin. Until there was one, each look at the DAG file reckons anew when it is
# due: without this, one that falls between that time and the scheduler would put it off to the next time.
_LATE = timedelta(minutes=10)
# As `check` saw it: form and YAML may differ by now. Without its answer, the old release runs on.
_STRATEGY = "{{ (ti.xcom_pull(task_ids='check') or {}).get('strategy', '') }}"
_CHECKED = "{{ (ti.xcom_pull(task_ids='check') or {}).get('release') | tojson }}"
_AS_CHECKED = {
    **_RELEASE,
    "checked": _CHECKED,
    "redeployed": f"{{{{ {value('release')} != '' }}}}",
    "unasked": _UNASKED,
    "stored": said("release"),
}
_AGAIN = f"{{{{ ', and read records again' if {value('rewind')} else '' }}}}"
_APPROVAL = "{{ (ti.xcom_pull(task_ids='check') or {}).get('approval', '') }}"
_APPLICATION = "{{ (ti.xcom_pull(task_ids='check') or {}).get('application', '') }}"
# `submit` pushes it before it does anything else, so the tasks that clean up after a failure find it.
_CANDIDATE = "{{ ti.xcom_pull(task_ids='submit', key='family') or '' }}"
# The same, or what `hand_over` has brought in itself, by the strategy `restart`.
_NEW = "{{ ti.xcom_pull(task_ids='hand_over', key='family') or ti.xcom_pull(task_ids='submit', key='family') or '' }}"
# Text for people and for the gate of a release that is neither judged nor approved; see `planning.gates`.
_APPROVED = (
    "{% set who = ti.xcom_pull(task_ids='approve', key='approved_by') %}"
    "{% set judged = ti.xcom_pull(task_ids='judge') or {} %}"
    f"{{{{ who or ('{JUDGED}pass' if judged.get('verdict') == 'pass' else '') }}}}"
)
_OLD = "{{ (ti.xcom_pull(task_ids='hand_over') or {}).get('previous', '') }}"
_HANDED = "{{ ti.xcom_pull(task_ids='hand_over') | tojson }}"
_BACK = "{{ ti.xcom_pull(task_ids='roll_back') | tojson }}"
_FAULT = "{{ ti.xcom_pull(task_ids='soak', key='fault') or '' }}"
# An outcome that a roll-back must not take for a fault.
_WHY_NOT = "{{ ti.xcom_pull(task_ids='soak', key='fault') or ti.xcom_pull(task_ids='soak', key='inconclusive') or '' }}"
_VERSION = "{{ (ti.xcom_pull(task_ids='check') or {}).get('version', '') }}"
_SOAKED = "{{ (ti.xcom_pull(task_ids='soak') or {}).get('result', '') }}"
_REJECTED_BY = "{{ ti.xcom_pull(task_ids='approve', key='rejected_by') or '' }}"
_WHY_BACK = (
    "{% set who = ti.xcom_pull(task_ids='approve', key='rejected_by') %}"
    "{% if who %}Rejected by {{ who }}.{% else %}"
    "{{ ti.xcom_pull(task_ids='soak', key='fault') or 'It did not take over.' }}{% endif %}"
)
_DEPLOYMENT = (
    "id of the deployment to end, such as orders-1-5b84d9c5: what comes before the dot where the page Streams names "
    "its driver. It must not hold the stream. To end the whole stream, choose retire in NAME__operate."
)
_ABOUT_UPGRADE = """\
Upgrades the stream {spec.name}. The new release is warm before the old one stops:

1. **check**: YAML, script, cluster and Kafka, before anything is touched
2. **submit**: the new driver comes up and rehearses on a clone of the checkpoint
3. **judge**: it is compared with the old one on the same data; where that is not clear, **approve** asks a person
4. **hand_over**: it takes over between two batches
5. **soak**: it is watched; if it is no good, **roll_back** gives the stream back to the old one

With the strategy `restart`, for a cluster without room for two, **submit** and **judge** are skipped: **hand_over**
stops the old release first.

Every task may be cleared or retried at any time.
"""


def upgrade_dag(spec: StreamSpec, options: DagOptions) -> DAG:
    """Return ``NAME__upgrade``: check, submit and rehearse, judge, hand over, soak, retire; and the way back."""
    cron = spec.upgrade.schedule
    with options.dag(
        spec.name,
        "upgrade",
        schedule=CronTriggerTimetable(cron, timezone="UTC", run_immediately=_LATE) if cron else None,
        description=f"Upgrade the stream {spec.name}: the new release is warm before the old one stops.",
        # Upgrades wait for each other, but not for the retirement of old releases (RetireLaterOperator).
        max_active_runs=1,
        tags=["stream", spec.name],
        doc_md=_ABOUT_UPGRADE.format(spec=spec),
    ) as dag:
        check = CheckReleaseOperator(
            **task(UPGRADE, "check"),
            stream=spec,
            room="{{ params.strategy == 'handover' }}",
            strategy=said("strategy"),
            stored=said("release"),
            unasked=_UNASKED,
            retries=0,
            **_RELEASE,
        )
        with group(UPGRADE, "new_release"):
            submit = SubmitStandbyOperator(
                **task(UPGRADE, "submit"),
                stream=spec,
                pre_execute=_unless_restart,
                **_AS_CHECKED,
            )
            judge = JudgeRehearsalOperator(**task(UPGRADE, "judge"), stream=spec, family=_CANDIDATE)
            approve = _approval(spec)
        with group(UPGRADE, "take_over"):
            # `approve` is skipped where no person has to be asked.
            hand_over = TakeOverOperator(
                **task(UPGRADE, "hand_over"),
                stream=spec,
                family=_CANDIDATE,
                approved=_APPROVED,
                strategy=_STRATEGY,
                trigger_rule=TriggerRule.NONE_FAILED,
                **_AS_CHECKED,
            )
            soak = SoakOperator(**task(UPGRADE, "soak"), stream=spec, family=_NEW)
        with group(UPGRADE, "way_back"):
            roll_back = RollBackOperator(
                **task(UPGRADE, "roll_back"),
                stream=spec,
                family=_NEW,
                fault=_FAULT,
                well=_SOAKED,
                reason=_WHY_BACK,
            )
        with group(UPGRADE, "afterwards"):
            retire = RetireLaterOperator(
                **task(UPGRADE, "retire"),
                stream=spec,
                previous=_OLD,
                trigger_dag_id=options.dag_id(spec.name, "retire"),
                trigger_run_id="{{ run_id }}",
            )
            report = ReportUpgradeOperator(
                **task(UPGRADE, "report"),
                stream=spec,
                family=_NEW,
                soaked=_SOAKED,
                fault=_WHY_NOT,
                rejected_by=_REJECTED_BY,
                handed=_HANDED,
                back=_BACK,
                on_success_callback=UpgradeNotifier(stream=spec),
                on_failure_callback=UpgradeNotifier(stream=spec),
            )
        steps: list[BaseOperator] = [check, submit, judge, approve, hand_over, soak]
        for before, after in zip(steps, [*steps[1:], retire], strict=True):
            before >> after
        soak >> roll_back >> report
        retire >> report
        # They run as well when a person marks the run as failed: no standby keeps cores in vain, and the run's state is
        # the report's, not that of skipped tasks.
        roll_back.as_teardown()
        report.as_teardown(on_failure_fail_dagrun=True)
    # Set after the operators: Airflow copies the DAG's params for every operator made in it, which would take most of
    # the parsing time. Tasks see them all the same.
    dag.params = ParamsDict(_form(spec))
    return dag


def retire_dag(spec: StreamSpec, options: DagOptions) -> DAG:
    """Return ``NAME__retire``: ends a release that does not hold the stream any more. Upgrades start it."""
    with options.dag(
        spec.name,
        "retire",
        description=f"End a release of {spec.name} that was kept warm.",
        # Triggered by the upgrade: paused, it would keep old releases warm for ever without a visible reason.
        is_paused_upon_creation=False,
        params={"deployment": required(_DEPLOYMENT)},
        tags=["stream", spec.name],
        doc_md=f"Ends a release of the stream {spec.name} that does not hold it any more. Upgrades start this DAG.",
    ) as dag:
        RetireOperator(**task(RETIRE, "retire"), stream=spec, deployment=said("deployment"), reason="Kept long enough.")
    return dag


def _form(spec: StreamSpec) -> dict[str, Param]:
    return {
        "version": Param(
            spec.version,
            type="string",
            pattern=f"^{VERSION.pattern}$",
            description="Label of the new release, such as 2.1.0. The YAML's is filled in.",
        ),
        "application": Param(
            spec.application,
            type="string",
            minLength=1,
            description="Script; a .py file inside the folder where the YAML's relative paths start.",
        ),
        "arguments": _arguments(spec),
        "strategy": _strategy(spec),
        "changed_checkpoints": lines(
            [],
            "What this release changes on purpose, one a line: PATH of a checkpoint that it adds or drops; "
            "PATH: source, or PATH: sink, for a query that reads or writes elsewhere; PATH: sink_log for batches "
            "that its sink drops. Empty: nothing.",
        ),
        "no_way_back": Param(
            False,
            type="boolean",
            description="Take over though the release before may not be able to read what this one writes: the stream "
            "cannot be given back to it then.",
        ),
        "release": optional(
            "Hash, or its first digits, of a stored release: that is deployed as it was, with its own version, script "
            "and arguments, and none of its files has to be there any more. Empty: what the fields above say.",
            pattern=DIGITS,
        ),
        "rewind": optional("Leave it empty: the operation rewind fills it in, with where records are read again."),
        "reason": optional(
            "Why; it is written into the stream's history, which many read. May be left empty.", maxLength=MAX_REASON
        ),
    }


def _arguments(spec: StreamSpec) -> Param:
    about = "Arguments of the script, one a line; empty: none" + (
        "." if spec.upgrade.free_arguments else ". The YAML allows no others than its own (upgrade.free_arguments)."
    )
    # No constant, though `check` refuses others: Airflow looks at the form before every task of a run. After an edit of
    # the YAML it would refuse all that are left of one that has begun, also those that take a bad release back.
    return lines(list(spec.arguments), about)


def _strategy(spec: StreamSpec) -> Param:
    about = listed({strategy.value: strategy.description for strategy in Strategy})
    wanted = spec.upgrade.strategy.value
    if spec.upgrade.approval:
        about += f"\n\nWith `approval` on, the YAML chooses: `check` refuses any but {wanted}."
    # No constant either way, as with the arguments: after an edit of the YAML, no task of a run would be left.
    return Param(wanted, type="string", enum=[s.value for s in Strategy], description_md=about)


def _approval(spec: StreamSpec) -> BaseOperator:
    return ApproveUpgradeOperator(
        **task(UPGRADE, "approve"),
        stream=spec,
        family=_CANDIDATE,
        checked=_CHECKED,
        rewind=said("rewind"),
        application=_APPLICATION,
        strategy=_STRATEGY,
        approval=_APPROVAL,
        trigger_rule=TriggerRule.NONE_FAILED,
        rehearsal="{{ ti.xcom_pull(task_ids='judge') | tojson }}",
        subject=f"Hand {spec.name} over to release {_VERSION}{_AGAIN}?",
        notifiers=[ApprovalNotifier(stream=spec)],
    )
