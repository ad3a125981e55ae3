"""Bring a release up beside the one that runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import HandOverFailed, SpecError, StreamError
from airflow_stream_provider.operators.release import ReleaseOperator

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Declare, Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class SubmitStandbyOperator(ReleaseOperator):
    """Publish, declare and submit a release, and wait until it is up, rehearsed and warm. The holder is not touched.

    Fails when the rehearsal is refused, when the driver never comes up, or when the cluster has no room for it: the
    message says what is free and what was asked for. Also when somebody else has stopped the stream since the run was
    triggered, which may have waited for another one.

    :param checked: `release` in the XCom of CheckReleaseOperator, or its JSON: what was checked is declared then,
        though files, YAML or form have changed since; default: what they say now is published. (templated)
    :param redeployed: whether it is a stored release: `upgrade.on_change` does not undo what is not of the YAML.
        (templated)
    :param rewind: as CheckReleaseOperator was given it: from where records are read again; default: none are.
        (templated)

    XCom: `deployment`, `version`, `incarnation`, `rehearsal` (its summary by query), `holder` and `epoch` at that time.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "checked", "redeployed", "rewind")

    _asked_at = math.inf
    """When the run was triggered, in seconds since 1970."""

    def __init__(
        self,
        *,
        checked: Mapping[str, Any] | str | None = None,
        redeployed: bool | str = False,
        rewind: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rewind = rewind
        self.checked = checked
        self.redeployed = redeployed

    @override
    def begin(self, context: Context) -> None:
        super().begin(context)
        run = context.get("dag_run")
        self._asked_at = math.inf if run is None else run.run_after.timestamp()

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.stand_by import bring_up
        from airflow_stream_provider.planning.steps import GiveUp
        from airflow_stream_provider.planning.stop import stopped_since

        mine = self.subject(identity)
        # Here, and not where the run begins: a stop ends what was declared before it, and nothing is declared after it.
        why = "" if mine in snapshot.state.deployments else stopped_since(snapshot, self._asked_at, identity.run)
        if why:
            return GiveUp(HandOverFailed(why, next_step="Nothing was submitted. If it shall run, ask for it again."))
        return bring_up(snapshot, mine, outcome, self.reason or identity.by)

    @override
    def subject(self, identity: TaskIdentity) -> str:
        release = self._release
        return super().subject(identity) if release is None else identity.deployment(self.stream.name, release.version)

    @override
    def declare(self, step: Declare, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        if self._release is not None and self.stream.problem:
            # The policy is in the YAML. Not a SpecError: the file may be mended when this is retried.
            raise StreamError(self.stream.problem)
        from airflow_stream_provider.planning.rewind import read_rewind

        seq = snapshot.state.seq
        return self.hook.declare(
            self.requested,
            step.deployment,
            step.reason,
            identity.by,
            seq,
            checked=self._release,
            redeployed=str(self.redeployed) == "True",
            rewind=read_rewind(self.rewind),
        )

    @property
    def _release(self) -> Release | None:
        """The release that was checked; None: the one that files, YAML and form describe now."""
        from airflow_stream_provider.lifecycle.release import Release

        try:
            found = json.loads(self.checked or "null") if isinstance(self.checked, str) else self.checked
            return Release.from_json(found) if found else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SpecError(
                "`checked` is not what CheckReleaseOperator leaves as `release` in its XCom.",
                next_step="Pull that, with `| tojson`, or leave `checked` out.",
            ) from error
