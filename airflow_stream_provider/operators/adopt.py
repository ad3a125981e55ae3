"""Adopt a job that runs without a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.lineage import TellsLineage
from airflow_stream_provider.operators.release import ReleaseOperator
from airflow_stream_provider.operators.stream import (
    AbortOperator,
    FenceOperator,
    PromoteOperator,
    RestartStreamOperator,
    RollBackOperator,
    StartStreamOperator,
    StopStreamOperator,
)
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.scene import Scene
    from airflow_stream_provider.planning.verbs import Answer


class AdoptOperator(TellsLineage, ReleaseOperator):
    """Bring a release up beside a job without a stream, have that ended, and take its checkpoints over.

    The release rehearses on the job's own checkpoints while that runs. It is appointed once the job is confirmed gone,
    and runs its first batch once their logs stand still. With neither `job` nor `confirmed_by` it only stands by: end
    the job, then run another such task, which goes on with what stands by.

    :param job: the cluster's id of the job (``driver-…``, ``app-…``, ``application_…``), which the cluster ends.
        (templated)
    :param confirmed_by: the person who made sure that the job neither runs nor can come back; the cluster is not asked
        then. If that person errs, two jobs write one checkpoint. (templated)
    :param family: of what stands by, from an earlier task; default: what the log knows to stand by. (templated)

    XCom: `deployment`, `version`, `holder`, `family`, `adopted`. While that is False, `says`: how far the job is; once
    it is True, what HandOverOperator leaves.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "job", "confirmed_by")

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True

    def __init__(self, *, job: str = "", confirmed_by: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.confirmed_by = confirmed_by

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.operation import check_job, check_person
        from airflow_stream_provider.planning.verbs import adopt

        return adopt(
            scene,
            self.reason or scene.me.by,
            family=self.family,
            job=check_job(self.job),
            confirmed_by=check_person(self.confirmed_by),
            approval=self.stream.upgrade.approval,
        )


# The parts that work on one deployment, which a person was shown.
_OF_ONE: dict[Operation, type[StreamOperator]] = {
    Operation.PROMOTE: PromoteOperator,
    Operation.ROLL_BACK: RollBackOperator,
    Operation.ABORT: AbortOperator,
}


def operator_of(
    part: Operation,
    *,
    deployment: str = "",
    confirmed_by: str = "",
    job: str = "",
    **arguments: Any,
) -> StreamOperator:
    """Return the operator of one part of an operation.

    :param deployment: that is fenced, called off, promoted or rolled back from.
    :param confirmed_by: the person by whose word a fence, or an adoption, goes.
    :param job: the cluster's id of the job that is adopted.
    :param arguments: of the operator, such as `task_id`, `stream` and `reason`.
    """
    if part in (Operation.STOP, Operation.RETIRE):
        return StopStreamOperator(for_good=part is Operation.RETIRE, **arguments)
    if part is Operation.START:
        return StartStreamOperator(**arguments)
    if part is Operation.RESTART:
        return RestartStreamOperator(**arguments)
    if part is Operation.ADOPT:
        return AdoptOperator(confirmed_by=confirmed_by, job=job, **arguments)
    if part is Operation.FENCE:
        return FenceOperator(deployment=deployment, confirmed_by=confirmed_by, **arguments)
    return _OF_ONE[part](deployment=deployment, **arguments)
