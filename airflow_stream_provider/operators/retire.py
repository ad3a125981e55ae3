"""End one deployment that does not hold the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.condition import Needs
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class RetireOperator(StreamOperator):
    """End a deployment that does not hold the stream: its driver exits, and is killed if it does not.

    Skipped when it holds the stream, or is not known. XCom: `retired`, `version`.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.retire import retire

        return retire(snapshot, self.deployment, outcome, self.reason or identity.by)

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.condition import Needs

        return Needs(drivers=(self.deployment,) if self.deployment in snapshot.state.deployments else ())
