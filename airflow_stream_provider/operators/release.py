"""Base of the operators that bring up a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Context
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.operators.base import WishOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import TaskIdentity, Want
    from airflow_stream_provider.spec.requested_release import RequestedRelease


class ReleaseOperator(WishOperator):
    """Base of the operators that take a release.

    :param version: label of the release; default: the YAML's. (templated)
    :param application: script, a .py file inside the folder where the YAML's relative paths start; default: the
        YAML's. (templated)
    :param arguments: of the script, a list or its JSON; default: the YAML's. Others are refused unless the YAML says
        `upgrade.free_arguments`. (templated)
    :param changed_checkpoints: what is changed on purpose: ``PATH`` of a checkpoint that is added or dropped,
        ``PATH: source``, ``PATH: sink`` or ``PATH: sink_log``. (templated)
    :param no_way_back: let it take over though the release before may not be able to read what it writes, and cannot
        be given the stream back then; default: the rehearsal refuses that. (templated: `True` or `False`)
    """

    template_fields: Sequence[str] = (
        *WishOperator.template_fields,
        "version",
        "application",
        "arguments",
        "changed_checkpoints",
        "no_way_back",
    )

    _asked_at = math.inf
    """When the run was triggered, in seconds since 1970."""

    def __init__(
        self,
        *,
        version: str | None = None,
        application: str | None = None,
        arguments: Sequence[str] | str | None = None,
        changed_checkpoints: Sequence[str] | str | None = None,
        no_way_back: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.application = application
        self.arguments = arguments
        self.changed_checkpoints = changed_checkpoints
        self.no_way_back = no_way_back

    @property
    def requested(self) -> RequestedRelease:
        """The release that the task's parameters and the YAML describe."""
        from airflow_stream_provider.spec.requested_release import RequestedRelease

        return RequestedRelease.of(
            self.stream,
            self.version,
            self.application,
            self.arguments,
            self.changed_checkpoints,
            bundle_of(self.get_dag()),
            no_way_back=str(self.no_way_back) == "True",
        )

    @override
    def begin(self, context: Context) -> None:
        """Push the family of what is wished before anything else: the tasks that clean up after a failure need it."""
        from airflow_stream_provider.planning.steps import TaskIdentity

        context["ti"].xcom_push(key="family", value=TaskIdentity.of(context).wish)
        run = context.get("dag_run")
        self._asked_at = math.inf if run is None else run.run_after.timestamp()
        self.hook.create()

    @override
    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        return self.hook.wish(step, identity.by, snapshot.state.seq, self.requested if step.publish else None)

    @override
    def wait_hint(self, identity: TaskIdentity) -> str:
        """Return what the cluster says of the driver and, of one that is queued, why it may be."""
        from airflow_stream_provider.clusters import DriverState, status_of

        said: list[str] = []
        try:
            snapshot = self.hook.observe()
            deployment = self.subject(snapshot.state, identity)
            if not snapshot.submission(deployment):
                return "It was not submitted yet."
            state = status_of(self.hook.cluster, snapshot.submission(deployment))
            said.append(state.description)
            if state is DriverState.QUEUED:
                self.hook.check_room(snapshot.state.deployments[deployment].release, deployment)
        except StreamError as error:
            said.append(error.message)
        return " ".join(said)


def bundle_of(dag: DAG | None) -> Path | None:
    """Return the folder of the DAG bundle that a DAG was read from; None when Airflow does not tell."""
    if dag is None or not dag.relative_fileloc or Path(dag.relative_fileloc).is_absolute():
        return None
    within = len(Path(dag.relative_fileloc).parts)
    return Path(dag.fileloc).parents[within - 1]
