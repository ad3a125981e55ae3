"""Questions to a person, after which a run goes on only with a yes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, exceptions
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from typing_extensions import override

from airflow_stream_provider.triggers.grace import beyond

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.lifecycle.rewind import WantedRewind
    from airflow_stream_provider.lifecycle.state import Deployment
    from airflow_stream_provider.planning.judgement import Answered
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.spec.stream import StreamSpec

# The time for a yes. The looks are old by then.
ANSWER = timedelta(hours=1)
# How Airflow waits for an answer by itself: from 3.3 on without a trigger.
WAITS = (TaskDeferred, getattr(exceptions, "TaskAwaitingInput", TaskDeferred))


def answered_by(event: Mapping[str, Any]) -> str:
    """Return the name of the person who has answered."""
    return (event.get("responded_by_user") or {}).get("name") or "somebody"


class QuestionOperator(ApprovalOperator):
    """Ask a person for a yes. Fails when the answer is no, when none comes in time, and when it can be none any more.

    :param response_timeout: time for the answer; default an hour.

    XCom: the answer; for a no, under the key `rejected_by`, the name of its person; for a yes, under `YES`.
    """

    YES: ClassVar[str] = ""
    """The key of the XCom with the name of the person who said yes; empty: there is none."""
    WITHOUT_A_YES: ClassVar[str]
    """The outcome without a yes, as the end of a sentence."""

    def __init__(self, *, response_timeout: timedelta = ANSWER, **kwargs: Any) -> None:
        super().__init__(response_timeout=response_timeout, **kwargs)

    def ask_while_it_stands_by(self, context: Context, hook: StreamHook, condition: Answered) -> Any:
        """Ask, and end by the condition: as soon as the deployment in question cannot take over any more, say.

        In a trigger of our own: Airflow's way of waiting would not notice that its driver dies.

        :raises AirflowSkipException: when the trigger resumes it: no answer is needed any more.
        """
        from airflow_stream_provider.triggers.stream import ApprovalTrigger

        try:
            return super().execute(context)
        except WAITS:
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
        answer = super().execute_complete(context, event)
        if self.YES:
            context["ti"].xcom_push(key=self.YES, value=answered_by(event))
        return answer

    def _unanswered(self, event: dict[str, Any]) -> NoReturn:
        from airflow_stream_provider.planning.waits import Ended, WaitOutcome

        outcome = WaitOutcome.from_event(event)
        if outcome.ended is Ended.REACHED:
            raise AirflowSkipException(f"No answer is needed any more: {outcome.reason}")
        if outcome.ended is Ended.TIMEOUT:
            self._timed_out()
        raise AirflowFailException(
            f"While a person was asked: {outcome.reason} There is nothing left to decide: {self.WITHOUT_A_YES}. "
            "Trigger it again."
        )

    def _timed_out(self) -> NoReturn:
        raise AirflowFailException(
            f"No answer came within {self.response_timeout}, which counts as a no: {self.WITHOUT_A_YES}. Trigger it "
            "again."
        )

    @override
    def process_trigger_event_error(self, event: dict[str, Any]) -> NoReturn:
        if event["error_type"] == "timeout":
            self._timed_out()
        raise AirflowFailException(f"The answer cannot be used: {event['error']}. Without a yes {self.WITHOUT_A_YES}.")


class ApproveUpgradeOperator(QuestionOperator):
    """Ask a person whether a release shall take over, and show what it runs as the control log has it.

    Asks where `check` or the YAML says `upgrade.approval`, and where the judgement of the rehearsal is no pass; else it
    is skipped. `upgrade.approvers` and `upgrade.approval_timeout` say who may answer and for how long. Fails when the
    answer is no, when there is none in time, and as soon as there is nothing left to decide: the standby is gone,
    another release holds, or the stream was stopped. The clean-up after a failure then ends the standby, which stays
    warm until then. A question that is only about a doubt is skipped once the holder is broken, or there is none.

    :param stream: the stream, as read by `load_spec`.
    :param family: of the release that stands by, from the XCom of the task that submitted it. (templated)
    :param checked: `release` in the XCom of CheckReleaseOperator, as JSON: that is shown where nothing stands by.
        (templated)
    :param rewind: as CheckReleaseOperator was given it; shown in the same case. (templated)
    :param application: script as it was asked for. (templated)
    :param rehearsal: XCom of JudgeRehearsalOperator, as JSON. (templated)
    :param strategy: as `check` has left it in XCom: with `restart` nothing stands by, and nothing was rehearsed.
        (templated)
    :param approval: ``True`` or ``False``, as `check` saw it, from its XCom: that can only ask for more than the YAML
        does. (templated)

    XCom: as of QuestionOperator; under the key `approved_by` the name of the person who said yes.
    """

    template_fields = (
        *QuestionOperator.template_fields,
        "family",
        "checked",
        "rewind",
        "application",
        "rehearsal",
        "strategy",
        "approval",
    )

    YES = "approved_by"
    WITHOUT_A_YES = "the standby is ended"

    def __init__(
        self,
        *,
        stream: StreamSpec,
        family: str,
        application: str,
        rehearsal: str,
        checked: str = "",
        rewind: str = "",
        strategy: str = "",
        approval: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            assigned_users=[{"id": user, "name": user} for user in stream.upgrade.approvers] or None,
            response_timeout=timedelta(seconds=stream.upgrade.approval_timeout),
            **kwargs,
        )
        self.stream = stream
        self.family = family
        self.checked = checked
        self.rewind = rewind
        self.application = application
        self.rehearsal = rehearsal
        self.strategy = strategy
        self.approval = approval

    @override
    def execute(self, context: Context) -> Any:
        # Imported here: parsing a DAG file needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.planning.judgement import Answered
        from airflow_stream_provider.spec.stream import Strategy

        judged = json.loads(self.rehearsal or "null") or {}
        needed = self.approval == "True" or self.stream.upgrade.approval
        alone = self.strategy == Strategy.RESTART.value
        if not needed and (alone or judged.get("verdict") == "pass"):
            raise AirflowSkipException(f"No approval is needed: {_why_not(alone=alone)}.")
        with failing_without_retry():
            hook = StreamHook.of(self.stream)
            snapshot = hook.observe()
            held = snapshot.state.holding_deployment
            if held is not None and held.family == self.family:
                raise AirflowSkipException("It holds the stream already: there is nothing left to decide.")
            known = snapshot.state.family(self.family)
            if not known and not alone:
                raise AirflowFailException(f"Nothing stands by that could be approved. {snapshot.holder_sentence}")
            shown = self._checked_facts(hook, snapshot) if alone else self._facts(hook, snapshot, known[-1])
        shown["asked_by"] = getattr(context.get("dag_run"), "triggering_user_name", None)
        wanted = ["`upgrade.approval` is on."] if needed else []
        unjudged = [] if alone else ["The rehearsal was not judged."]
        shown["asked_because"] = [*judged.get("reasons", []), *wanted] or unjudged
        shown["rehearsal"] = judged
        # As JSON, in which no argument can end the block or pass for another line.
        self.body = f"```json\n{json.dumps(shown, indent=2)}\n```"
        if alone:
            return super().execute(context)
        limits = None if needed else self.stream.lag.limits.to_json()
        return self.ask_while_it_stands_by(context, hook, Answered(known[-1].id, snapshot.holding, limits))

    def _facts(self, hook: StreamHook, snapshot: Snapshot, declared: Deployment) -> dict[str, Any]:
        return {
            **_reads_again(declared.rewind, snapshot),
            **self._release_facts(hook, declared.release),
            "changed_checkpoints": list(declared.policy.changed_checkpoints),
            "no_way_back": declared.policy.no_way_back,
            "deployment": declared.id,
        }

    def _checked_facts(self, hook: StreamHook, snapshot: Snapshot) -> dict[str, Any]:
        from airflow_stream_provider.lifecycle.release import Release
        from airflow_stream_provider.planning.rewind import read_rewind

        return {
            **_reads_again(read_rewind(self.rewind), snapshot),
            **self._release_facts(hook, Release.from_json(json.loads(self.checked))),
            "strategy": "restart: the old release stops first, and nothing was rehearsed",
        }

    def _release_facts(self, hook: StreamHook, release: Release) -> dict[str, Any]:
        from airflow_stream_provider.releases.open_place import address_of

        folder, spec = address_of(release, hook.stream, hook.folder), self.stream
        same = {
            "version": release.version == spec.version,
            "application": self.application == spec.application,
            "arguments": release.arguments == spec.arguments,
        }
        return {
            "version": release.version,
            "application": self.application,
            "arguments": list(release.arguments),
            "hash": release.hash,
            "sources": {name: f"{folder}/{name}" for name in (release.application, *release.py_files)},
            "conf": dict(release.conf),
            "other_than_in_the_yaml": [name for name, is_same in same.items() if not is_same],
        }


def _reads_again(rewind: WantedRewind | None, snapshot: Snapshot) -> dict[str, Any]:
    """The part that sets such an upgrade apart from others, so it is shown first."""
    from airflow_stream_provider.planning.rewind import read_again

    return {} if rewind is None else {"reads_records_again": read_again(rewind, snapshot.holder_heartbeat)}


def _why_not(*, alone: bool) -> str:
    return "nothing was rehearsed, and the YAML asks for none" if alone else "the rehearsal has passed"
