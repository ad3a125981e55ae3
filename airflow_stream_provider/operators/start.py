"""Start a stream that nobody holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from typing_extensions import override

from airflow_stream_provider.operators.handover import with_gaps
from airflow_stream_provider.operators.release import ReleaseOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class StartStreamOperator(ReleaseOperator):
    """Start a stream that nobody holds: submit a release, wait until it is up, appoint it.

    Nothing is done when the wanted version runs already and its driver is alive; fails when that is dead, and when
    another version holds. XCom: as of HandOverOperator.
    """

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True

    @override
    def begin(self, context: Context) -> None:
        from airflow_stream_provider.planning.operation import Operation

        super().begin(context)
        self.say_first(Operation.START, self.requested)

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.start import start

        mine, reason = self.subject(identity), self.reason or identity.by
        return start(snapshot, identity, mine, self.requested.version, outcome, reason)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return with_gaps(snapshot, done)
