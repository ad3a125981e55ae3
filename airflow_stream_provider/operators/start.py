"""Start a stream that has no holder."""

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
    """Start a stream that has no holder: submit a release, wait until it is up, appoint it.

    A driver that is lost before it holds is followed by another one, up to three, and by one more whenever the task is
    retried or cleared; not one that says why it has failed, nor once somebody has stopped the stream. Nothing is done
    when the wanted version runs already and its driver is alive; fails when that is dead, and when another version
    holds. XCom: as of HandOverOperator.
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

        return start(snapshot, identity, self.requested.version, outcome, self.reason or identity.by)

    @override
    def subject(self, identity: TaskIdentity) -> str:
        from airflow_stream_provider.lifecycle.state import StreamState
        from airflow_stream_provider.planning.own_tries import own_tries

        state = self.hook.control_log.refresh() if self.hook.exists() else StreamState()
        return own_tries(state, identity, self.stream.name, self.requested.version)[-1]

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return with_gaps(snapshot, done)
