"""Questions to a person, after which a run goes on only with a yes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput, TaskDeferred
from typing_extensions import override

from airflow_stream_provider.triggers.grace import beyond

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.planning.answer import Answered

# The time for a yes. The looks are old by then.
ANSWER = timedelta(hours=1)


def answered_by(event: Mapping[str, Any]) -> str:
    """Return the name of the person who has answered."""
    return (event.get("responded_by_user") or {}).get("name") or "somebody"


class QuestionOperator(ApprovalOperator):
    """Ask a person for a yes. Fails when the answer is no, when none comes in time, and when it can be none any more.

    :param response_timeout: time for the answer; default an hour.

    XCom: the answer; for a no, under the key `rejected_by`, the name of its person.
    """

    WITHOUT_A_YES: ClassVar[str]
    """The outcome without a yes, as the end of a sentence."""

    def __init__(self, *, response_timeout: timedelta = ANSWER, **kwargs: Any) -> None:
        super().__init__(response_timeout=response_timeout, **kwargs)

    def ask_while_it_stands_by(self, context: Context, hook: StreamHook, condition: Answered) -> Any:
        """Ask, and end by the condition: as soon as the deployment in question cannot take over any more, say.

        In a trigger of our own: Airflow's way of waiting would not notice that its driver dies.

        :raises AirflowSkipException: when the trigger resumes it: no answer is needed any more.
        """
        from airflow_stream_provider.triggers.approval import ApprovalTrigger

        try:
            return super().execute(context)
        except (TaskAwaitingInput, TaskDeferred):
            assert self.response_timeout is not None, "there is always an end"
            seconds = self.response_timeout.total_seconds()
            trigger = ApprovalTrigger(
                address=hook.address,
                condition=condition.to_json(),
                deadline=time.time() + seconds,
                ti_id=str(context["task_instance"].id),
                options=list(self.options),
            )
            self.defer(trigger=trigger, method_name="execute_complete", timeout=beyond(seconds))

    @override
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if "ended" in event:
            self._unanswered(event)
        if event.get("chosen_options") == [self.REJECT]:
            context["ti"].xcom_push(key="rejected_by", value=answered_by(event))
            raise AirflowFailException(f"{answered_by(event)} said no: {self.WITHOUT_A_YES}.")
        return super().execute_complete(context, event)

    def _unanswered(self, event: dict[str, Any]) -> NoReturn:
        from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

        outcome = WaitOutcome.from_event(event)
        if outcome.ended is Ended.REACHED:
            raise AirflowSkipException(f"Nobody has to be asked any more: {outcome.reason}")
        if outcome.ended is Ended.TIMEOUT:
            self._timed_out()
        raise AirflowFailException(
            f"While a person was asked: {outcome.reason} There is nothing left to decide: {self.WITHOUT_A_YES}. "
            "Trigger it again."
        )

    def _timed_out(self) -> NoReturn:
        raise AirflowFailException(
            f"Nobody answered within {self.response_timeout}, which counts as a no: {self.WITHOUT_A_YES}. Trigger it "
            "again."
        )

    @override
    def process_trigger_event_error(self, event: dict[str, Any]) -> NoReturn:
        if event["error_type"] == "timeout":
            self._timed_out()
        raise AirflowFailException(f"The answer cannot be used: {event['error']}. Without a yes {self.WITHOUT_A_YES}.")
