"""Call off a release before it holds the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from airflow_stream_provider.operators.retire import RetireOperator
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class AbortOperator(RetireOperator):
    """End a deployment that comes up or stands by and has never held the stream; the holder goes on.

    An open hand-over to it is waited for; fails when that has made it the holder. Skipped when it is not known. The run
    that brought it up fails by itself. XCom: as of RetireOperator.
    """

    OPERATION = Operation.ABORT

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.abort import abort

        return abort(snapshot, self.deployment, outcome, self.reason or identity.by)
