"""A person's yes between rehearsal and hand-over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.state import Deployment
    from airflow_stream_provider.spec.stream import StreamSpec


def said_no(event: Mapping[str, Any]) -> str:
    """Return the name of the person whose answer is no; empty when it is yes."""
    if event.get("chosen_options") != [ApprovalOperator.REJECT]:
        return ""
    return (event.get("responded_by_user") or {}).get("name") or "somebody"


class ApproveUpgradeOperator(ApprovalOperator):
    """Ask a person whether a deployment shall take over, and show what it runs as the control log has it.

    Who may answer and for how long is said by `upgrade.approvers` and `upgrade.approval_timeout`. Fails when the answer
    is no, and when there is none in time: what cleans up after a failure then ends the standby.

    :param stream: the stream, as read by `load_spec`.
    :param deployment: deployment that waits for the answer. (templated)
    :param application: script as it was asked for. (templated)
    :param rehearsal: numbers of the rehearsal, as JSON. (templated)

    XCom: the answer; under the key `rejected_by` who said no.
    """

    template_fields = (*ApprovalOperator.template_fields, "deployment", "application", "rehearsal")

    def __init__(self, *, stream: StreamSpec, deployment: str, application: str, rehearsal: str, **kwargs: Any) -> None:
        super().__init__(
            assigned_users=[{"id": user, "name": user} for user in stream.upgrade.approvers] or None,
            response_timeout=timedelta(seconds=stream.upgrade.approval_timeout),
            **kwargs,
        )
        self.stream = stream
        self.deployment = deployment
        self.application = application
        self.rehearsal = rehearsal

    @override
    def execute(self, context: Context) -> Any:
        # Imported here: parsing a DAG file needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.hooks.stream import StreamHook
        from airflow_stream_provider.releases.open_place import address_of

        with failing_without_retry():
            if self.stream.problem:
                # Who may answer is said there. Not a SpecError: the file may be mended when the task is retried.
                raise StreamError(self.stream.problem)
            hook = StreamHook.of(self.stream)
            declared = hook.control_log.refresh().deployments[self.deployment]
            shown = self._facts(declared, address_of(declared.release, hook.stream, hook.folder))
        shown["asked_by"] = getattr(context.get("dag_run"), "triggering_user_name", None)
        shown["rehearsal"] = json.loads(self.rehearsal or "null")
        # As JSON, in which no argument can end the block or pass for another line.
        self.body = f"```json\n{json.dumps(shown, indent=2)}\n```"
        return super().execute(context)

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

    @override
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if who := said_no(event):
            context["ti"].xcom_push(key="rejected_by", value=who)
            raise AirflowFailException(f"Rejected by {who}.")
        return super().execute_complete(context, event)

    @override
    def process_trigger_event_error(self, event: dict[str, Any]) -> NoReturn:
        if event["error_type"] == "timeout":
            raise AirflowFailException(
                f"Nobody answered within {self.response_timeout}. The standby is ended; trigger the upgrade again."
            )
        raise AirflowFailException(f"The answer cannot be used: {event['error']}")
