"""Each part of what a person asks has an operator of its own."""

from __future__ import annotations

import pytest

from airflow_stream_provider.operators.adopt import operator_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.stream import (
    AbortOperator,
    FenceOperator,
    HandOverOperator,
    RollBackOperator,
    StartStreamOperator,
    StopStreamOperator,
)
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.stream import StreamSpec


@pytest.mark.parametrize(
    ("part", "kind", "deployment"),
    [
        (Operation.STOP, StopStreamOperator, ""),
        (Operation.START, StartStreamOperator, ""),
        (Operation.ROLL_BACK, RollBackOperator, "d"),
        (Operation.ABORT, AbortOperator, "d"),
        (Operation.PROMOTE, HandOverOperator, "d"),
        (Operation.FENCE, FenceOperator, "d"),
    ],
)
def test_a_part_has_its_operator(
    spec: StreamSpec, part: Operation, kind: type[StreamOperator], deployment: str
) -> None:
    found = operator_of(part, task_id="t", stream=spec, deployment="d", confirmed_by="Ada", reason="why")
    assert type(found) is kind
    assert (found.stream, found.reason, found.deployment) == (spec, "why", deployment)
    assert getattr(found, "confirmed_by", "") == ("Ada" if part is Operation.FENCE else "")


@pytest.mark.parametrize("whole", [Operation.RESTART, Operation.RETIRE, Operation.UPGRADE, Operation.REDEPLOY])
def test_what_is_made_of_parts_has_none(spec: StreamSpec, whole: Operation) -> None:
    with pytest.raises(AssertionError):
        operator_of(whole, task_id="t", stream=spec, reason="why")
