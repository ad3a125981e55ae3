"""Adopt a job that runs without a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.operators.handover import with_gaps
from airflow_stream_provider.operators.release import ReleaseOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.condition import Needs
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Declare, Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


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
        from airflow_stream_provider.planning.condition import Needs

        return Needs(job=self.job)

    @override
    def declare(self, step: Declare, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        seq = snapshot.state.seq
        return self.hook.declare(self.requested, step.deployment, step.reason, identity.by, seq, adopts=True)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return with_gaps(snapshot, done)
