"""Bring a release up beside the one that runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.plan import stand_by
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome
from airflow_stream_provider.spec.requested_release import RequestedRelease


class ReleaseOperator(StreamOperator):
    """Base of the operators that take a release.

    :param version: label of the release; default: the YAML's. (templated)
    :param application: script; relative paths as in the YAML, which is the default. (templated)
    :param arguments: of the script, a list or its JSON; default: the YAML's. (templated)
    :param changed_checkpoints: query checkpoints that are added, dropped or renamed on purpose. (templated)
    """

    template_fields: Sequence[str] = ("version", "application", "arguments", "changed_checkpoints", "reason")

    def __init__(
        self,
        *,
        version: str | None = None,
        application: str | None = None,
        arguments: Sequence[str] | str | None = None,
        changed_checkpoints: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.application = application
        self.arguments = arguments
        self.changed_checkpoints = changed_checkpoints

    @property
    def wanted(self) -> RequestedRelease:
        """The release that is meant."""
        return RequestedRelease.of(
            self.stream, self.version, self.application, self.arguments, self.changed_checkpoints
        )

    def subject(self, identity: TaskIdentity) -> str:
        """The deployment that this task declares."""
        return identity.deployment(self.stream.name, self.wanted.version)

    def begin(self, context: Context) -> None:
        """Leave the deployment's id first: whoever cleans up after a failure needs it."""
        context["ti"].xcom_push(key="deployment", value=self.subject(TaskIdentity.of(context)))
        self.hook.create()

    def bring_up(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Declare, submit and wait until the release stands by."""
        deployment = self.subject(identity)
        if deployment not in snapshot.state.deployments:
            return self.wanted.declare(self.hook, identity, self.reason)
        return stand_by(snapshot, deployment, outcome)

    def timeout_hint(self, identity: TaskIdentity) -> str:
        """Return what the cluster says of the driver, and whether it has room."""
        snapshot = self.hook.observe()
        deployment = self.subject(identity)
        if not snapshot.submission(deployment):
            return "It was not submitted yet."
        state = self.hook.cluster.status(snapshot.submission(deployment))
        try:
            self.hook.cluster.check(self.hook.job(deployment))
        except ClusterError as error:
            return f"{state.description} {error.message}"
        return state.description


class SubmitStandbyOperator(ReleaseOperator):
    """Publish, declare and submit a release, and wait until it is up, rehearsed and warm. The holder is not touched.

    Fails when the rehearsal is refused, when the driver never comes up, or when the cluster has no room for it: the
    message says what is free and what was asked for.

    XCom: `deployment`, `version`, `incarnation`, `rehearsal` (its summary by query), `holder` and `epoch` at that time.
    """

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step."""
        return self.bring_up(snapshot, identity, outcome)
