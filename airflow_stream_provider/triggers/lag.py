"""The trigger behind all that waits for a lag. It never acts, and shares its reader with all others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lag.streaks import Streaks
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.planning.lag_conditions import Look, lag_condition_from_json
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from airflow_stream_provider.triggers.reader import SharedReader, next_tick, shared_reader

# Triggers that start within this share their first look too.
FRESH_SECONDS = 1.0


class LagTrigger(BaseTrigger):
    """Look at a lag until a goal is reached, lost, cannot be known, or its time is over.

    :param target: whose lag; see `LagTarget`.
    :param goal: what to wait for; see `hooks.lag_goals`.
    :param interval: seconds between two looks. All triggers with the same interval look at the same moments of the
        wall clock, so that Kafka is asked once for all of them.
    :param deadline: seconds of the wall clock. Absolute, so that a restarted triggerer does not begin anew.
    :param partitions: the event tells of partitions too, not of queries only.
    """

    def __init__(
        self,
        target: dict[str, Any],
        condition: dict[str, Any],
        interval: float,
        deadline: float,
        partitions: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.target = target
        self.condition = condition
        self.interval = interval
        self.deadline = deadline
        self.partitions = partitions

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {
            "target": self.target,
            "condition": self.condition,
            "interval": self.interval,
            "deadline": self.deadline,
            "partitions": self.partitions,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the outcome of the wait."""
        # Left before the event: what comes after it may never run.
        async with shared_reader(self.target["kafka"]) as reader:
            outcome = await self._wait(reader)
        self.log.info("%s: %s", outcome.ended.value, outcome.reason or "as wanted")
        payload = replace(outcome, subject=self._name, deadline=self.deadline).to_event()
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]

    async def _wait(self, reader: SharedReader) -> WaitOutcome:
        target, condition, streaks = LagTarget(**self.target), lag_condition_from_json(self.condition), Streaks()
        look: Look | None = None
        trouble = ""
        # Of now, not of the last tick: what comes before this task may have changed everything.
        since = time.time() - FRESH_SECONDS
        self.log.info("Waiting for %s: %s.", self._name, condition.description)
        while (left := self.deadline - time.time()) > 0:
            try:
                async with asyncio.timeout(left) as limit:
                    look = await reader.look(target, since)
            except TimeoutError:
                if not limit.expired():
                    raise
                break
            except SpecError as error:
                # A person has to change something first: nothing is gained by waiting.
                return WaitOutcome(Ended.LOST, reason=str(error))
            if look.problem and look.problem != trouble:
                self.log.warning("The lag cannot be known now: %s", look.problem)
            trouble = look.problem
            outcome = condition.check(look, streaks)
            if outcome is not None:
                return replace(outcome, evidence=self._evidence(look))
            since = await next_tick(self.interval, self.deadline)
        reason = f"waited in vain for {condition.description}" + (f"; {trouble}" if trouble else "")
        return WaitOutcome(Ended.TIMEOUT, reason=reason, evidence=self._evidence(look))

    @property
    def _name(self) -> str:
        return str(self.target.get("stream") or self.target.get("group"))

    def _evidence(self, look: Look | None) -> Mapping[str, Any]:
        if look is None or look.report is None:
            return {}
        ceilings = Ceilings(**self.condition.get("limits", {}).get("ceilings", {}))
        return summary(look.report, ceilings, partitions=self.partitions)
