"""The operators behind what a person asks by hand: the same for the command line and the form."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.operators.abort import AbortOperator
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.fence import FenceOperator
from airflow_stream_provider.operators.handover import HandOverOperator, RollBackOperator
from airflow_stream_provider.operators.start import StartStreamOperator
from airflow_stream_provider.operators.stop import StopStreamOperator
from airflow_stream_provider.planning.operation import Operation


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
