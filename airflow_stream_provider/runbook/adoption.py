"""The tasks by which ``NAME__operate`` adopts a job that runs without a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, Context, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.stream import RetireOperator
from airflow_stream_provider.runbook.question import QuestionOperator, answered_by
from airflow_stream_provider.runbook.words import OPERATE, group, task
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity
    from airflow_stream_provider.planning.waits import WaitOutcome

_LOOK = "ti.xcom_pull(task_ids='look')"
# A run that began before this provider was upgraded has none.
_JOB = f"{_LOOK}.get('job', '')"
# Rendered also where the task is skipped.
_STANDS_BY = "(ti.xcom_pull(task_ids='stand_by') or {})"
_WORD = "ti.xcom_pull(task_ids='job_ended', key='confirmed_by')"
# It pushes that before it does anything else, so the task that cleans up finds it.
_FOLLOWER = "{{ ti.xcom_pull(task_ids='stand_by', key='deployment') or '' }}"


def adoption(spec: StreamSpec, after: BaseOperator, skip: Callable[[Context], None]) -> BaseOperator:
    """Add the tasks behind `after`, and return the last of them: stand_by, job_ended, adopt; and discard.

    :param skip: skips each of them when no adoption was asked for.
    """
    more: dict[str, Any] = {"stream": spec, "reason": f"{{{{ {_LOOK}['reason'] }}}}", "pre_execute": skip}
    with group(OPERATE, "adoption"):
        stand_by = AdoptOperator(
            **task(OPERATE, "stand_by"),
            deployment=f"{{{{ {_LOOK}['deployment'] }}}}",
            # The tasks before may have been skipped.
            trigger_rule=TriggerRule.NONE_FAILED,
            **more,
        )
        ended = JobEndedOperator(
            **task(OPERATE, "job_ended"),
            stream=spec,
            deployment=_FOLLOWER,
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
            deployment=_FOLLOWER,
            job=f"{{{{ {_JOB} }}}}",
            confirmed_by=f"{{{{ {_LOOK}['confirmed_by'] or {_WORD} or '' }}}}",
            trigger_rule=TriggerRule.NONE_FAILED,
            **more,
        )
        discard = DiscardFollowerOperator(
            **task(OPERATE, "discard"),
            stream=spec,
            deployment=_FOLLOWER,
            reason="It did not adopt the job.",
            pre_execute=_skip_unless_there_is_one,
        )
    after >> stand_by >> ended >> adopt >> discard
    # Also when a person marks the run as failed: no standby keeps cores in vain, and the run stays failed.
    discard.as_teardown(on_failure_fail_dagrun=True)
    return adopt


class DiscardFollowerOperator(RetireOperator):
    """End a driver that was to follow a job and did not, and fail then: the job was not adopted.

    Skipped when it holds the stream, and when another run or command has brought it up, which may still need it.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.adopt import left_to_another
        from airflow_stream_provider.planning.steps import Skip

        why = left_to_another(snapshot.state, self.deployment, identity)
        return Skip(why) if why else super().plan(snapshot, identity, outcome)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> NoReturn:
        raise AirflowFailException(
            f"{done['retired']} did not take over, and is ended. The task before it says why, and whether the old job "
            "has ended."
        )


def _skip_unless_there_is_one(context: Context) -> None:
    if not context["ti"].xcom_pull(task_ids="stand_by", key="deployment"):
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
        from airflow_stream_provider.hooks.old_job import is_to_end
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.planning.judgement import Answered
        from airflow_stream_provider.planning.steps import TaskIdentity

        if self.known:
            raise AirflowSkipException(f"Nobody is asked: the end of the old job is settled by {self.known}.")
        with failing_without_retry():
            hook = StreamHook.of(self.stream)
            is_to_end(hook, TaskIdentity.of(context), self.deployment, "A person is asked to end the old job.")
            return self.ask_while_it_stands_by(context, hook, Answered(self.deployment, hook.observe().holding))

    @override
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        from airflow_stream_provider.hooks.old_job import runs_on
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.planning.steps import TaskIdentity

        if event.get("chosen_options") == [self.REJECT]:
            why = f"The old job goes on, by the word of {answered_by(event)}."
            runs_on(StreamHook.of(self.stream), TaskIdentity.of(context), self.deployment, why)
        answer = super().execute_complete(context, event)
        context["ti"].xcom_push(key="confirmed_by", value=answered_by(event))
        return answer
