"""A person's yes between rehearsal and hand-over, where one is needed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.runbook.question import QuestionOperator

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.state import Deployment
    from airflow_stream_provider.spec.stream import StreamSpec


class ApproveUpgradeOperator(QuestionOperator):
    """Ask a person whether a deployment shall take over, and show what it runs as the control log has it.

    Asks where `check` or the YAML says `upgrade.approval`, and where the judgement of the rehearsal is no pass; else it
    is skipped. `upgrade.approvers` and `upgrade.approval_timeout` say who may answer and for how long. Fails when the
    answer is no, when there is none in time, and as soon as there is nothing left to decide: the standby is gone,
    another release holds, or the stream was stopped. The clean-up after a failure then ends the standby, which stays
    warm until then. A question that is only about a doubt is skipped once the holder is broken, or there is none.

    :param stream: the stream, as read by `load_spec`.
    :param deployment: deployment that waits for the answer. (templated)
    :param application: script as it was asked for. (templated)
    :param rehearsal: XCom of JudgeRehearsalOperator, as JSON. (templated)
    :param approval: ``True`` or ``False``, as `check` saw it, from its XCom: that can only ask for more than the YAML
        does. (templated)

    XCom: as of QuestionOperator.
    """

    template_fields = (*QuestionOperator.template_fields, "deployment", "application", "rehearsal", "approval")

    WITHOUT_A_YES = "the standby is ended"

    def __init__(
        self,
        *,
        stream: StreamSpec,
        deployment: str,
        application: str,
        rehearsal: str,
        approval: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            assigned_users=[{"id": user, "name": user} for user in stream.upgrade.approvers] or None,
            response_timeout=timedelta(seconds=stream.upgrade.approval_timeout),
            **kwargs,
        )
        self.stream = stream
        self.deployment = deployment
        self.application = application
        self.rehearsal = rehearsal
        self.approval = approval

    @override
    def execute(self, context: Context) -> Any:
        # Imported here: parsing a DAG file needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.planning.answer import Answered
        from airflow_stream_provider.planning.rewind import read_again
        from airflow_stream_provider.releases.open_place import address_of

        judged = json.loads(self.rehearsal or "null") or {}
        needed = self.approval == "True" or self.stream.upgrade.approval
        if judged.get("verdict") == "pass" and not needed:
            raise AirflowSkipException("Nobody has to be asked: the rehearsal has passed.")
        with failing_without_retry():
            if self.stream.problem:
                # The YAML names the approvers. Not a SpecError: the file may be mended when the task is retried.
                raise StreamError(self.stream.problem)
            hook = StreamHook.of(self.stream)
            snapshot = hook.observe()
            if snapshot.holds(self.deployment):
                raise AirflowSkipException("It holds the stream already: there is nothing left to decide.")
            declared = snapshot.state.deployments[self.deployment]
            shown = self._facts(declared, address_of(declared.release, hook.stream, hook.folder))
            if declared.rewind is not None:
                # First: it is what sets this upgrade apart from others.
                shown = {"reads_records_again": read_again(declared.rewind, snapshot.holder_heartbeat), **shown}
        shown["asked_by"] = getattr(context.get("dag_run"), "triggering_user_name", None)
        wanted = ["`upgrade.approval` is on."] if needed else []
        shown["asked_because"] = [*judged.get("reasons", []), *wanted] or ["The rehearsal was not judged."]
        shown["rehearsal"] = judged
        # As JSON, in which no argument can end the block or pass for another line.
        self.body = f"```json\n{json.dumps(shown, indent=2)}\n```"
        limits = None if needed else self.stream.lag.limits.to_json()
        return self.ask_while_it_stands_by(context, hook, Answered(self.deployment, snapshot.holding, limits))

    def _facts(self, declared: Deployment, folder: str) -> dict[str, Any]:
        release, spec = declared.release, self.stream
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
            "changed_checkpoints": list(declared.policy.changed_checkpoints),
            "no_way_back": declared.policy.no_way_back,
            "deployment": declared.id,
        }
