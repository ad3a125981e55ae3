"""A Kafka that the triggers of a test share: what a measurement finds, and when it answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.lag.limits import LagLimits, Moments
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError

LIMITS = LagLimits(max_records=10)


@dataclass
class WatchedKafka:
    """What a measurement finds: records behind, or an error, one after the other and the last one for ever.

    A measurement ends once `answers` is set, which it is at first.
    """

    finds: list[Any] = field(default_factory=lambda: [0])
    answers: threading.Event = field(default_factory=threading.Event)
    answered: int = 0
    opened: int = 0
    unread: int = 0  # so many times the connection `flaky` cannot be read
    closed: int = 0
    reads: list[list[LagTarget]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.answers.set()

    def read(self, targets: Mapping[LagTarget, Moments]) -> dict[LagTarget, LagReport | StreamError]:
        self.threads.add(threading.current_thread().name)
        self.reads.append(list(targets))
        assert self.answers.wait(30), "nobody let Kafka answer"
        self.answered += 1
        found = self.finds.pop(0) if len(self.finds) > 1 else self.finds[0]
        if isinstance(found, ControlUnavailable):
            return dict.fromkeys(targets, found)
        if isinstance(found, Exception):
            raise found
        return {target: behind(found, moments) for target, moments in targets.items()}


def behind(lag: int | None, moments: Moments) -> LagReport:
    """A report of now with so many records; None: unknown."""
    state = PartitionState.NO_LEADER if lag is None else PartitionState.OK
    verdict = None if lag is None else Verdict.OK
    age = float(lag or 0)
    unread = {moment: None if lag is None else time.time() - age < moment for moment in moments.at}
    partition = PartitionLag("t", 0, state, 0, 0, lag, verdict=verdict)
    return LagReport(time.time(), (QueryLag("enrich", (partition,), seconds=age, unread_before=unread),))


def target(name: str = "orders", kafka: str = "kafka_default") -> LagTarget:
    return LagTarget(kafka, name, "file:///control")


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
