"""The tries of a stream operator's task, one after the other, with real waits and without Airflow's processes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.waits import WaitOutcome
from tests.support.tasks import run


class Tries:
    """A task, run step by step: `go_on` runs it until it defers again, or ends. Its operator has a logger of Python's.

    `deferred`: what it waits for now; None once it has ended. `error`: what it failed with; empty: it did not. `said`:
    the warnings in its log so far.
    """

    def __init__(self, operator: StreamOperator) -> None:
        self.said = ""
        self._operator = operator
        log: Any = operator.log
        log.addHandler(_Warnings(self))
        self.deferred: TaskDeferred | None = None
        self.error = ""
        self._run(None)

    def wait(self) -> WaitOutcome:
        """Wait as its trigger does."""
        assert self.deferred is not None
        trigger: Any = self.deferred.trigger

        async def first() -> WaitOutcome:
            async for event in trigger.run():
                return WaitOutcome.from_event(event.payload)
            raise AssertionError("the trigger ended without an event")

        return asyncio.run(first())

    def go_on(self, outcome: WaitOutcome) -> None:
        """Resume it after a wait."""
        self._run(outcome)

    def _run(self, outcome: WaitOutcome | None) -> None:
        self.deferred = None
        try:
            run(self._operator, outcome)
        except TaskDeferred as deferred:
            self.deferred = deferred
        except AirflowFailException as failed:
            self.error = str(failed)


class _Warnings(logging.Handler):
    def __init__(self, task: Tries) -> None:
        super().__init__(logging.WARNING)
        self._task = task

    def emit(self, record: logging.LogRecord) -> None:
        if "outside of the Task Runner" not in record.getMessage():  # Airflow's own
            self._task.said += f"{record.getMessage()}\n"
