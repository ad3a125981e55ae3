"""Make room on the cluster for a new standby."""

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


class MakeRoomOperator(StreamOperator):
    """Retire the deployments that earlier runs left warm, to make room for a new standby. The holder is not touched."""

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.retire import leftovers, retire_all
        from airflow_stream_provider.planning.steps import Done

        wanted = leftovers(snapshot, identity)
        step = retire_all(snapshot, wanted, outcome, self.reason or f"superseded by {identity.run}")
        return step or Done({"stream": snapshot.stream, "retired": list(wanted)})

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Ask the cluster which of their drivers are gone."""
        from airflow_stream_provider.planning.condition import Needs
        from airflow_stream_provider.planning.retire import leftovers

        return Needs(drivers=leftovers(snapshot, identity))
