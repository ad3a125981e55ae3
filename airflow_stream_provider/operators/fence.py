"""Fence a deployment: confirm that its drivers are dead, by the cluster or by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class FenceOperator(StreamOperator):
    """Kill every driver of a deployment and append `fenced` once that is confirmed; then another may take over.

    The other operators fence by themselves where they must. This one is for a person on call: a holder that misbehaves,
    or a cluster that is gone for good and can no longer confirm anything.

    :param confirmed_by: the person who made sure that none of the drivers runs or can come back. The cluster is then
        not asked; if the person is wrong, two drivers write one checkpoint. Refused for a driver that has beaten within
        its lease. (templated)

    XCom: `fenced`, the incarnations that this task fenced.
    """

    template_fields = (*StreamOperator.template_fields, "confirmed_by")
    OPERATION = Operation.FENCE

    def __init__(self, *, confirmed_by: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.confirmed_by = confirmed_by

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.lifecycle.record import Kind
        from airflow_stream_provider.planning.fence import fence, fence_by_word
        from airflow_stream_provider.planning.operation import check_person
        from airflow_stream_provider.planning.steps import Done, Skip

        who = check_person(self.confirmed_by)
        if self.deployment not in snapshot.state.deployments:
            return Skip(f"There is no deployment {self.deployment!r}.")
        drivers = snapshot.state.of_deployment(self.deployment)
        left = [d.id for d in drivers if not d.state.terminal or d.id in snapshot.state.must_fence]
        if left:
            why = self.reason or identity.by
            return fence_by_word(snapshot, left[0], who, why) if who else fence(snapshot, left[0], outcome, why)
        fenced = [r["incarnation"] for r in snapshot.records if r.kind == Kind.FENCED and r.by == identity.by]
        return Done({"stream": snapshot.stream, "deployment": self.deployment, "fenced": fenced})
