"""The trigger that waits for a lag to meet a condition."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.lag.limits import LagLook, Moments, Streaks
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, SpecError
from airflow_stream_provider.planning.lag_conditions import LAG_CONDITIONS
from airflow_stream_provider.planning.waits import Looks, condition_from_json, wait
from airflow_stream_provider.triggers.shared_reader import SharedReader, next_tick, shared_reader

# A connection that so many looks in a row could not read, in so many seconds, is taken for one that is not defined.
MISSING_LOOKS = 3
MISSING_SECONDS = 60.0
# Triggers that start within this many seconds share their first look too.
FRESH_SECONDS = 1.0


class LagTrigger(BaseTrigger):
    """Measure a lag until a condition ends the wait or its deadline has passed. Never changes anything.

    All triggers of one Kafka connection share one reader; see `SharedReader`.

    :param target: whose lag; a LagTarget as JSON.
    :param condition: what to wait for, as JSON; see `planning.lag_conditions`.
    :param interval: seconds between two looks. All triggers with the same interval look at the same moments of the
        wall clock, so that Kafka is asked once for all of them.
    :param deadline: seconds since 1970. Absolute, so that a restarted triggerer does not extend it.
    :param partitions: whether the event tells about partitions, too.
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
        """Yield one event: the WaitOutcome."""
        target = LagTarget(**self.target)
        condition = condition_from_json(self.condition, LAG_CONDITIONS)
        # The reader is left before the event: code after a yield may never run.
        async with shared_reader(target.kafka) as reader:
            looks = _LagLooks(reader, target, condition.moments, self.interval, self.deadline)
            waited = await wait(condition, looks, self.deadline, subject=target.name, fatal=SpecError, log=self.log)
        evidence = condition.evidence(waited.last, partitions=self.partitions)
        payload = replace(waited.outcome, subject=target.name, evidence=evidence, deadline=self.deadline).to_event()
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]


@dataclass
class _LagLooks(Looks[LagLook, Streaks]):
    reader: SharedReader
    target: LagTarget
    moments: Moments
    interval: float
    deadline: float
    # Not from the last tick: the task before this one may have changed everything since then.
    since: float = field(default_factory=lambda: time.time() - FRESH_SECONDS)
    # When the connection could not be read, since it could be.
    unread: list[float] = field(default_factory=list)

    async def look(self, memory: Streaks) -> LagLook:
        try:
            look = await self.reader.look(self.target, self.since, self.moments)
        except ConnectionUnavailable as error:
            self.unread.append(time.monotonic())
            if len(self.unread) >= MISSING_LOOKS and self.unread[-1] - self.unread[0] >= MISSING_SECONDS:
                # It stays so until a person creates it.
                raise SpecError(error.message, next_step=error.next_step) from error
            raise
        self.unread.clear()
        return look

    async def pause(self) -> None:
        self.since = await next_tick(self.interval, self.deadline)
