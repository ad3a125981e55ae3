"""Adopt a job that runs without a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.release import ReleaseOperator
from airflow_stream_provider.operators.stream import (
    AbortOperator,
    FenceOperator,
    HandOverOperator,
    RollBackOperator,
    StartStreamOperator,
    StopStreamOperator,
)
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Declare, Step, TaskIdentity
    from airflow_stream_provider.planning.waits import Needs, WaitOutcome


class AdoptOperator(ReleaseOperator):
    """Bring a release up beside a job without a stream, have that ended, and take its checkpoints over.

    The release rehearses on the job's own checkpoints while that runs. It is appointed once the job is confirmed gone,
    and runs its first batch once their logs stand still. With neither `job` nor `confirmed_by` it only stands by: end
    the job, then run another such task with its `deployment`.

    :param job: the cluster's id of the job (``driver-…``, ``app-…``, ``application_…``), which the cluster ends.
        (templated)
    :param confirmed_by: the person who made sure that the job neither runs nor can come back; the cluster is not asked
        then. If that person errs, two jobs write one checkpoint. (templated)
    :param deployment: the one that stands by, from an earlier task; default: one of its own. (templated)

    XCom: `deployment`, `version`, `holder`, `adopted`. While that is False, `says`: how far the job is; once it is
    True, what HandOverOperator leaves.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "deployment", "job", "confirmed_by")

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True

    def __init__(self, *, job: str = "", confirmed_by: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.confirmed_by = confirmed_by

    @override
    def subject(self, identity: TaskIdentity) -> str:
        return self.deployment or super().subject(identity)

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.adopt import adopt
        from airflow_stream_provider.planning.operation import check_job, check_person

        mine, reason = self.subject(identity), self.reason or identity.by
        who = {"job": check_job(self.job), "confirmed_by": check_person(self.confirmed_by)}
        return adopt(snapshot, identity, mine, outcome, reason, **who)

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.waits import Needs

        return Needs(job=self.job)

    @override
    def declare(self, step: Declare, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        seq = snapshot.state.seq
        return self.hook.declare(self.requested, step.deployment, step.reason, identity.by, seq, adopts=True)


def operator_of(
    part: Operation,
    *,
    deployment: str = "",
    confirmed_by: str = "",
    job: str = "",
    reason: str,
    **arguments: Any,
) -> StreamOperator:
    """Return the operator of one part of an operation.

    :param deployment: that is fenced, called off, promoted or rolled back from, or follows a job already.
    :param confirmed_by: the person by whose word a fence, or an adoption, goes.
    :param job: the cluster's id of the job that is adopted.
    :param arguments: of the operator, such as `task_id` and `stream`.
    """
    if part is Operation.STOP:
        return StopStreamOperator(reason=reason, **arguments)
    if part is Operation.START:
        return StartStreamOperator(reason=reason, **arguments)
    if part is Operation.PROMOTE:
        return HandOverOperator(reason=reason, deployment=deployment, **arguments)
    if part is Operation.ROLL_BACK:
        return RollBackOperator(reason=reason, deployment=deployment, **arguments)
    if part is Operation.ABORT:
        return AbortOperator(reason=reason, deployment=deployment, **arguments)
    if part is Operation.ADOPT:
        return AdoptOperator(reason=reason, deployment=deployment, confirmed_by=confirmed_by, job=job, **arguments)
    assert part is Operation.FENCE, "the others are made of these"
    return FenceOperator(reason=reason, deployment=deployment, confirmed_by=confirmed_by, **arguments)
