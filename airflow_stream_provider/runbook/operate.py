"""The DAG with the form by which a person stops, starts, upgrades, rolls back, fences or retires a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, Context, Param, TriggerRule
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.notifications.upgrade import UpgradeNotifier
from airflow_stream_provider.operators.adopt import operator_of
from airflow_stream_provider.operators.stream import TrialOperator
from airflow_stream_provider.planning.operation import ABOUT_FIELDS, MAX_PERSON, MAX_REASON, Operation
from airflow_stream_provider.runbook.adoption import adoption
from airflow_stream_provider.runbook.by_hand import (
    ConfirmOperator,
    LookAheadOperator,
    TellOperator,
    upgrade_run,
)
from airflow_stream_provider.runbook.form import (
    DIGITS,
    REQUIRED,
    DagOptions,
    lines,
    listed,
    optional,
    required,
    said,
    said_lines,
)
from airflow_stream_provider.runbook.words import OPERATE, TRIAL, group, task
from airflow_stream_provider.spec.shown import as_shown
from airflow_stream_provider.spec.stream import StreamSpec

_PARTS = (
    Operation.STOP,
    Operation.ROLL_BACK,
    Operation.ABORT,
    Operation.FENCE,
    Operation.PROMOTE,
    Operation.START,
    Operation.RESTART,
    Operation.RETIRE,
)
_OF_A_DEPLOYMENT = (Operation.ROLL_BACK, Operation.ABORT, Operation.FENCE, Operation.PROMOTE)
_LOOK = "ti.xcom_pull(task_ids='look')"
_ABOUT = """\
Stops, starts, restarts, upgrades, rolls back, fences or retires the stream {name}, has a stored release deployed, calls
a new one off, lets it take over now, or adopts a job that runs without a stream, as `airflow streams` does:

1. **look**: says who holds, what will be done and what is read again; what cannot be done is refused here, and nothing
   was touched
2. **confirm**: shows that to a person and waits for a yes; without an answer within an hour nothing is done
3. **stop**, **roll-back**, **abort**, **fence**, **promote**, **start**, **restart**, **retire**, **upgrade**: what was
   asked for; the others are skipped. **upgrade** starts a run of `{name}__upgrade`, which goes on by itself
4. **stand_by**, **job_ended**, **adopt**: the same for an adoption; without the id of the old job, **job_ended** asks a
   person to end it. **discard** leaves no driver behind that has not taken over
5. **tell**: what was done, in one line

Every task may be cleared or retried at any time: it finds in the control log what was done.
"""


def operate_dag(spec: StreamSpec, options: DagOptions) -> DAG:
    """Return ``NAME__operate``: look, confirm, do what the form says, tell."""
    with options.dag(
        spec.name,
        "operate",
        description=f"Stop, start, restart, upgrade, roll back, fence or retire the stream {spec.name}.",
        # A run of a paused DAG waits, and this form is for when there is no time to.
        is_paused_upon_creation=False,
        tags=["stream", spec.name],
        doc_md=_ABOUT.format(name=spec.name),
    ) as dag:
        confirm = LookAheadOperator(
            **task(OPERATE, "look"),
            # For the page, whose process has neither the YAML nor this object: see `plugin/looks.py`.
            doc_json=as_shown(spec),
            stream=spec,
            asked={name: said(name) for name in ("operation", "reason", *ABOUT_FIELDS)},
            upgrade_dag_id=options.dag_id(spec.name, "upgrade"),
            retries=0,
        ) >> ConfirmOperator(
            **task(OPERATE, "confirm"),
            ask="{{ params.ask }}",
            parts=f"{{{{ {_LOOK}['parts'] | tojson }}}}",
            subject=f"{{{{ params.operation }}}} the stream {spec.name}?",
            # As plain text: no link or image comes from a reason.
            body=f"```text\n{{{{ {_LOOK}['lines'] | join('\\n') }}}}\n```",
        )
        last: BaseOperator = confirm
        with group(OPERATE, "asked_for"):
            for part in _PARTS:
                last = last >> operator_of(
                    part,
                    **task(OPERATE, part.value),
                    stream=spec,
                    reason=f"{{{{ {_LOOK}['reason'] }}}}",
                    deployment=f"{{{{ {_LOOK}['deployment'] }}}}" if part in _OF_A_DEPLOYMENT else "",
                    confirmed_by=f"{{{{ {_LOOK}['confirmed_by'] }}}}",
                    pre_execute=_if_asked_for(part),
                    **(_told(spec) if part is Operation.ROLL_BACK else {}),
                    # The tasks before may have been skipped.
                    trigger_rule=TriggerRule.NONE_FAILED,
                )
            # Once; it goes on by itself.
            last = last >> TriggerDagRunOperator(
                **task(OPERATE, Operation.UPGRADE.value),
                trigger_dag_id=options.dag_id(spec.name, "upgrade"),
                trigger_run_id=upgrade_run("{{ run_id }}"),
                conf={
                    "release": f"{{{{ {_LOOK}.get('release', '') }}}}",
                    "reason": f"{{{{ {_LOOK}['reason'] }}}}",
                    "rewind": f"{{{{ ({_LOOK}.get('rewind') or '') and ({_LOOK}['rewind'] | tojson) }}}}",
                },
                skip_when_already_exists=True,
                fail_when_dag_is_paused=True,
                pre_execute=_if_asked_for(Operation.UPGRADE),
                trigger_rule=TriggerRule.NONE_FAILED,
            )
        tell = TellOperator(**task(OPERATE, "tell"), stream=spec, trigger_rule=TriggerRule.NONE_FAILED)
        last >> tell
        # Beside them: it is needed once in a stream's life, and no person waits at night until its tasks are skipped.
        adoption(spec, confirm, _if_asked_for(Operation.ADOPT)) >> tell
    # After the operators, as in `upgrade_dag`.
    dag.params = ParamsDict(_form())
    return dag


def trial_dag(spec: StreamSpec, options: DagOptions) -> DAG:
    """Return ``NAME__trial``: measures settings against the present ones, as `airflow streams trial` does."""
    with options.dag(
        spec.name,
        "trial",
        description=f"Measure a setting of {spec.name} against the present one, beside the holder.",
        is_paused_upon_creation=False,
        params={
            "conf": lines([], "SQL settings to try, one a line: spark.sql.shuffle.partitions=12."),
            "options": lines([], "Options of the Kafka sources to try, one a line: maxOffsetsPerTrigger=20000."),
            "persist": Param(False, type="boolean", description="Persist each batch for the function of foreachBatch."),
            "reason": required("why; it is written into the stream's history, which many read.", maxLength=MAX_REASON),
        },
        tags=["stream", spec.name],
        doc_md=f"Measures settings of the stream {spec.name} on clones of its checkpoints; see docs/tuning.md.",
    ) as dag:
        TrialOperator(
            **task(TRIAL, "trial"),
            stream=spec,
            conf=said_lines("conf"),
            options=said_lines("options"),
            persist="{{ params.persist }}",
            reason=said("reason"),
        )
    return dag


def _told(spec: StreamSpec) -> dict[str, Any]:
    """How a roll-back ended is told, as that of an upgrade."""
    return {name: UpgradeNotifier(stream=spec) for name in ("on_success_callback", "on_failure_callback")}


def _if_asked_for(part: Operation) -> Callable[[Context], None]:
    def skip(context: Context) -> None:
        if part.value not in context["ti"].xcom_pull(task_ids="look")["parts"]:
            raise AirflowSkipException("This was not asked for, or there is nothing left to do.")

    return skip


def _form() -> dict[str, Param]:
    about = listed({operation.value: operation.description for operation in Operation})
    return {
        "operation": Param(
            None,
            type="string",
            enum=[operation.value for operation in Operation],
            description_md=f"{REQUIRED}what is to be done.\n\n{about}",
        ),
        "reason": required("why; it is written into the stream's history, which many read.", maxLength=MAX_REASON),
        "confirmed_by": optional(ABOUT_FIELDS["confirmed_by"], maxLength=MAX_PERSON),
        "job": optional(ABOUT_FIELDS["job"]),
        "release": optional(ABOUT_FIELDS["release"], pattern=DIGITS),
        "to": optional(ABOUT_FIELDS["to"]),
        "query": optional(ABOUT_FIELDS["query"]),
        "ask": Param(True, type="boolean", description="Show what will happen and wait for a yes before it is done."),
    }
