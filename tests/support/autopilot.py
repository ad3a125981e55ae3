"""Carries out the operators' plans without Airflow: the same hook, conditions and plans, polled instead of deferred."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from airflow_stream_provider.planning.roll_back import roll_back
from airflow_stream_provider.planning.stand_by import stand_by
from airflow_stream_provider.planning.stop import stop
from airflow_stream_provider.planning.take_over import take_over

from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.planning.retire import retire
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.step_loop import carry_out_try
from airflow_stream_provider.planning.steps import Declare, Done, GiveUp, Skip, Step, TaskIdentity
from airflow_stream_provider.planning.waits import Ended, Needs, WaitOutcome
from airflow_stream_provider.triggers.stream import StreamTrigger
from devstack.stack_stream import StackStream

log = logging.getLogger(__name__)

Plan = Callable[[Snapshot, TaskIdentity, "WaitOutcome | None"], Step]


class _Verb:
    """A plan as the loop of the operators carries it out."""

    def __init__(self, plan: Plan, needs: Needs) -> None:
        self.plan = plan
        self._needs = needs

    def needs(self, snapshot: Snapshot, identity: TaskIdentity, /) -> Needs:
        return self._needs

    def declare(self, step: Declare, snapshot: Snapshot, identity: TaskIdentity, /) -> bool:
        raise AssertionError("the tests declare releases themselves")


class Autopilot:
    """One task after the other on one stream; each call is a task of its own name."""

    def __init__(self, stream: StackStream) -> None:
        # As a user would: Airflow reads connections from the environment.
        os.environ["AIRFLOW_CONN_SPARK_UNDER_TEST"] = json.dumps(stream.stack.cluster.connection)
        self.hook = StreamHook(stream.stream, stream.url, "spark_under_test")

    def take_over(self, to: str, task: str = "take_over", **options: Any) -> Mapping[str, Any]:
        """Make a deployment the holder, whatever state the present one is in."""
        return self._carry_out(task, lambda v, a, o: take_over(v, a, to, o, "test", **options))

    def roll_back(self, bad: str) -> Mapping[str, Any]:
        """Give the stream back to who had it before."""
        return self._carry_out("roll_back", lambda v, a, o: roll_back(v, a, bad, o, "test"))

    def stand_by(self, deployment: str) -> Mapping[str, Any]:
        """Wait for a declared deployment to be warm."""
        return self._carry_out("submit", lambda v, a, o: stand_by(v, deployment, o))

    def stop(self) -> Mapping[str, Any]:
        """Stop the stream and end its drivers."""
        return self._carry_out("stop", lambda v, a, o: stop(v, a, o, "test"))

    def retire(self, deployment: str) -> Mapping[str, Any]:
        """End a deployment."""
        needs = Needs(drivers=(deployment,))
        return self._carry_out("retire", lambda v, a, o: retire(v, deployment, o, "test"), needs)

    def _carry_out(self, task: str, plan: Plan, needs: Needs = Needs()) -> Mapping[str, Any]:  # noqa: B008 - frozen
        identity = TaskIdentity("test", "manual", task)
        outcome: WaitOutcome | None = None
        while True:
            step = carry_out_try(_Verb(plan, needs), self.hook, identity, outcome, log).step
            if isinstance(step, Done):
                return step.result
            if isinstance(step, GiveUp):
                raise step.error
            if isinstance(step, Skip):
                return {"skipped": step.reason}
            outcome = self._wait(step.condition.to_json())

    def _wait(self, condition: dict[str, Any]) -> WaitOutcome:
        async def first() -> WaitOutcome:
            async for event in StreamTrigger(self.hook.address, condition, time.time() + 300).run():
                return WaitOutcome.from_event(event.payload)
            raise AssertionError("the trigger ended without an event")

        outcome = asyncio.run(first())
        assert outcome.ended is not Ended.TIMEOUT, outcome
        return outcome
