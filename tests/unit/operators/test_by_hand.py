"""Which operator is behind what a person asks."""

from __future__ import annotations

import pytest

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.by_hand import operator_of
from airflow_stream_provider.operators.fence import FenceOperator
from airflow_stream_provider.operators.handover import RollBackOperator
from airflow_stream_provider.operators.start import StartStreamOperator
from airflow_stream_provider.operators.stop import StopStreamOperator
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.stream import StreamSpec


@pytest.mark.parametrize(
    ("part", "operator"),
    [
        (Operation.STOP, StopStreamOperator),
        (Operation.START, StartStreamOperator),
        (Operation.ROLL_BACK, RollBackOperator),
        (Operation.FENCE, FenceOperator),
    ],
)
def test_each_part_has_its_operator_with_the_reason(
    part: Operation, operator: type[StreamOperator], spec: StreamSpec
) -> None:
    found = operator_of(part, deployment="orders-1-aa", confirmed_by="Ada", reason="why", task_id="t", stream=spec)
    assert type(found) is operator
    assert found.reason == "why"
    assert found.deployment == ("orders-1-aa" if part in (Operation.ROLL_BACK, Operation.FENCE) else "")
