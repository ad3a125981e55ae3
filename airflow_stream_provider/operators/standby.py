"""Bring a release up beside the one that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from airflow_stream_provider.operators.release import ReleaseOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class SubmitStandbyOperator(ReleaseOperator):
    """Publish, declare and submit a release, and wait until it is up, rehearsed and warm. The holder is not touched.

    Fails when the rehearsal is refused, when the driver never comes up, or when the cluster has no room for it: the
    message says what is free and what was asked for.

    XCom: `deployment`, `version`, `incarnation`, `rehearsal` (its summary by query), `holder` and `epoch` at that time.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.stand_by import bring_up

        return bring_up(snapshot, self.subject(identity), outcome, self.reason or identity.by)
