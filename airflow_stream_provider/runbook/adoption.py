"""The tasks by which ``NAME__operate`` adopts a job that runs without a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, Context, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.stream import RollBackOperator
from airflow_stream_provider.runbook.question import QuestionOperator
from airflow_stream_provider.runbook.words import OPERATE, group, task
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.planning.scene import Scene
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.verbs import Answer

_LOOK = "ti.xcom_pull(task_ids='look')"
_JOB = f"{_LOOK}.get('job', '')"
# Rendered also where the task is skipped.
_STANDS_BY = "(ti.xcom_pull(task_ids='stand_by') or {})"
_WORD = "ti.xcom_pull(task_ids='job_ended', key='confirmed_by')"
_WHY_BACK = (
    "{% set who = ti.xcom_pull(task_ids='job_ended', key='rejected_by') %}"
    "{% if who %}The old job goes on, by the word of {{ who }}.{% else %}It did not adopt the job.{% endif %}"
)


def adoption(spec: StreamSpec, after: BaseOperator, skip: Callable[[Context], None]) -> BaseOperator:
    """Add the tasks behind `after`, and return the last of them: stand_by, job_ended, adopt; and discard.

    :param skip: skips each of them when no adoption was asked for.
    """
    more: dict[str, Any] = {"stream": spec, "reason": f"{{{{ {_LOOK}['reason'] }}}}", "pre_execute": skip}
    with group(OPERATE, "adoption"):
        stand_by = AdoptOperator(
            **task(OPERATE, "stand_by"),
            # The tasks before may have been skipped.
            trigger_rule=TriggerRule.NONE_FAILED,
            **more,
        )
        ended = JobEndedOperator(
            **task(OPERATE, "job_ended"),
            stream=spec,
            deployment=f"{{{{ {_STANDS_BY}.get('deployment', '') }}}}",
            known=f"{{{{ {_JOB} or {_LOOK}['confirmed_by'] }}}}",
            subject=f"Has the job ended that runs {spec.name} without this provider?",
            # As text, in which nothing that a script or Spark has written is a link or an image.
            body="```text\n"
            f"{{{{ {_STANDS_BY}.get('deployment') }}}} stands by and has rehearsed. End the old job now, and "
            "see that nothing starts it again.\n"
            f"{{{{ {_STANDS_BY}.get('says') }}}}\n"
            f"Read again: {{{{ {_LOOK}['reads_again'] }}}}\n"
            "Approve: by your word it is gone. Reject: nothing is done, and the old job goes on.\n```",
            pre_execute=skip,
        )
        adopt = AdoptOperator(
            **task(OPERATE, "adopt"),
            family=f"{{{{ {_STANDS_BY}.get('family', '') }}}}",
            job=f"{{{{ {_JOB} }}}}",
            confirmed_by=f"{{{{ {_LOOK}['confirmed_by'] or {_WORD} or '' }}}}",
            trigger_rule=TriggerRule.NONE_FAILED,
            **more,
        )
        discard = DiscardFollowerOperator(
            **task(OPERATE, "discard"),
            stream=spec,
            well="{{ (ti.xcom_pull(task_ids='adopt') or {}).get('adopted', '') or '' }}",
            reason=_WHY_BACK,
            pre_execute=_skip_unless_there_is_one,
        )
    after >> stand_by >> ended >> adopt >> discard
    # Also when a person marks the run as failed: no standby keeps cores in vain, and the run stays failed.
    discard.as_teardown(on_failure_fail_dagrun=True)
    return adopt


class DiscardFollowerOperator(RollBackOperator):
    """Take an adoption back that did not come to hold, end its driver, and fail then: the job was not adopted.

    Skipped when it holds the stream, and when another run or command has brought the driver up, which may still need
    it.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(fault="", **kwargs)

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.steps import Skip

        state = scene.state
        origin = state.wishes.get(state.wish.family) if state.wish is not None else None
        if origin is not None and state.has_run(origin.family):
            return Skip(f"There is nothing to discard. {scene.snapshot.holder_sentence}")
        if origin is not None and not origin.by.startswith(scene.me.run):
            return Skip(f"What is to follow the job was brought up by {origin.author}, and is left to that.")
        return super().wish(scene)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> NoReturn:
        raise AirflowFailException(
            "What was to follow the job did not take over, and is ended. The task before it says why, and whether the "
            f"old job has ended. {snapshot.holder_sentence}"
        )


def _skip_unless_there_is_one(context: Context) -> None:
    # It pushes that before it does anything else.
    if not context["ti"].xcom_pull(task_ids="stand_by", key="family"):
        raise AirflowSkipException("There is nothing to discard.")


class JobEndedOperator(QuestionOperator):
    """Ask a person to end the old job, and to say that it is gone, while the driver that is to follow it lives.

    :param stream: the stream, as read by `load_spec`.
    :param deployment: the one that is to follow the job. (templated)
    :param known: the id of the job, or the person who has confirmed its end already; then no person is asked.
        (templated)

    XCom: the answer; under the key `confirmed_by` the name of its person.
    """

    template_fields = (*QuestionOperator.template_fields, "deployment", "known")

    YES = "confirmed_by"
    WITHOUT_A_YES = "nothing was adopted, and the old job goes on if you have not ended it"

    def __init__(self, *, stream: StreamSpec, deployment: str, known: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.deployment = deployment
        self.known = known

    @override
    def execute(self, context: Context) -> Any:
        # Imported here: parsing a DAG file needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.planning.judgement import Answered

        if self.known:
            raise AirflowSkipException(f"Nobody is asked: the end of the old job is settled by {self.known}.")
        with failing_without_retry():
            hook = StreamHook.of(self.stream)
            return self.ask_while_it_stands_by(context, hook, Answered(self.deployment, hook.observe().holding))
