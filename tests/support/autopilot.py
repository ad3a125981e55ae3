"""Tasks of a stream that is run by hand, carried out by their operators without Airflow."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.cli.run_here import Exit, run_here
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.stream import HandOverOperator, RetireOperator, RollBackOperator
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.stack_stream import StackStream

CLUSTER = "spark_under_test"


class Autopilot:
    """One task after the other on one stream; each must end well."""

    def __init__(self, stream: StackStream) -> None:
        # As a user would: Airflow reads connections from the environment.
        os.environ[f"AIRFLOW_CONN_{CLUSTER.upper()}"] = json.dumps(stream.stack.cluster.connection)
        self.spec = StreamSpec(
            name=stream.stream, application="none.py", version="none", control=stream.url, cluster=CLUSTER
        )

    def take_over(self, to: str) -> Mapping[str, Any]:
        """Make a deployment that stands by the holder, whatever state the present one is in."""
        return self._run(HandOverOperator(task_id="take_over", stream=self.spec, family=to))

    def roll_back(self) -> Mapping[str, Any]:
        """Give the stream back to the release that had it before."""
        return self._run(RollBackOperator(task_id="roll_back", stream=self.spec))

    def retire(self, deployment: str) -> Mapping[str, Any]:
        """End a deployment."""
        return self._run(RetireOperator(task_id="retire", stream=self.spec, deployment=deployment))

    def _run(self, operator: StreamOperator) -> Mapping[str, Any]:
        ran = run_here(operator, TaskIdentity("test", "manual", operator.task_id))
        assert ran.code is Exit.DONE, ran.said
        return ran.result
