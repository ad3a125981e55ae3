"""The DAG with the form by which a person stops, starts, rolls back, fences or retires a stream."""

from __future__ import annotations

from collections.abc import Callable

from airflow.sdk import DAG, Context, Param, TriggerRule
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.notifications.upgrade import UpgradeNotifier
from airflow_stream_provider.operators.by_hand import operator_of
from airflow_stream_provider.planning.operation import MAX_PERSON, MAX_REASON, Operation
from airflow_stream_provider.runbook.by_hand import ConfirmOperator, LookAheadOperator, TellOperator
from airflow_stream_provider.runbook.options import DagOptions
from airflow_stream_provider.runbook.words import OPERATE, group, task
from airflow_stream_provider.spec.stream import StreamSpec

# A restart is the first and the last of them; every other operation is made of one.
_PARTS = (Operation.STOP, Operation.ROLL_BACK, Operation.ABORT, Operation.FENCE, Operation.START)
_OF_A_DEPLOYMENT = (Operation.ROLL_BACK, Operation.ABORT, Operation.FENCE)
_LOOK = "ti.xcom_pull(task_ids='look')"
_ABOUT = """\
Stops, starts, restarts, rolls back, fences or retires the stream {name}, or calls a new release off, as
`airflow streams` does:

1. **look**: says who holds, what will be done and what is read again; what cannot be done is refused here, and nothing
   was touched
2. **confirm**: shows that to a person and waits for a yes; without an answer within an hour nothing is done
3. **stop**, **roll-back**, **abort**, **fence**, **start**: what was asked for; the others are skipped
4. **tell**: what was done, in one line

Every task may be cleared or retried at any time: it finds in the control log what was done. To upgrade, use
`{name}__upgrade`.
"""


def operate_dag(spec: StreamSpec, options: DagOptions) -> DAG:
    """Return ``NAME__operate``: look, confirm, do what the form says, tell."""
    with options.dag(
        spec.name,
        "operate",
        description=f"Stop, start, restart, roll back, fence or retire the stream {spec.name}.",
        # A run of a paused DAG waits, and this form is for when there is no time to.
        is_paused_upon_creation=False,
        tags=["stream", spec.name],
        doc_md=_ABOUT.format(name=spec.name),
    ) as dag:
        last = LookAheadOperator(
            **task(OPERATE, "look"),
            stream=spec,
            operation="{{ params.operation }}",
            reason="{{ params.reason }}",
            confirmed_by="{{ params.confirmed_by }}",
            retries=0,
        ) >> ConfirmOperator(
            **task(OPERATE, "confirm"),
            ask="{{ params.ask }}",
            parts=f"{{{{ {_LOOK}['parts'] | tojson }}}}",
            subject=f"{{{{ params.operation }}}} the stream {spec.name}?",
            # As text, in which nothing that somebody gave as a reason is a link or an image.
            body=f"```text\\n{{{{ {_LOOK}['lines'] | join('\\n') }}}}\\n```",
        )
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
                    # What comes before may have been skipped.
                    trigger_rule=TriggerRule.NONE_FAILED,
                )
        last >> TellOperator(**task(OPERATE, "tell"), stream=spec, trigger_rule=TriggerRule.NONE_FAILED)
    # After the operators, as in `upgrade_dag`.
    dag.params = ParamsDict(_form())
    return dag


def _told(spec: StreamSpec) -> dict[str, UpgradeNotifier]:
    """How a roll-back ended is told, as that of an upgrade."""
    return {name: UpgradeNotifier(stream=spec) for name in ("on_success_callback", "on_failure_callback")}


def _if_asked_for(part: Operation) -> Callable[[Context], None]:
    def skip(context: Context) -> None:
        if part.value not in context["ti"].xcom_pull(task_ids="look")["parts"]:
            raise AirflowSkipException("This was not asked for, or there is nothing left to do.")

    return skip


def _form() -> dict[str, Param]:
    about = " ".join(f"**{operation.value}**: {operation.description}" for operation in Operation)
    return {
        "operation": Param(
            None,
            type="string",
            enum=[operation.value for operation in Operation],
            description_md=about,
        ),
        "reason": Param(
            None,
            type="string",
            minLength=1,
            maxLength=MAX_REASON,
            description="Why; it is written into the stream's history, which many read.",
        ),
        "confirmed_by": Param(
            "",
            type="string",
            maxLength=MAX_PERSON,
            description="For a fence alone: the person who made sure that the driver neither runs nor can come back. "
            "The cluster is not asked then.",
        ),
        "ask": Param(True, type="boolean", description="Show what will happen and wait for a yes before it is done."),
    }
