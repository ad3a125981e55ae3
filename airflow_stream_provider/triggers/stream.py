"""The trigger that waits for a stream to meet a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.planning.conditions import Condition, Observations
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.wait_loop import Looks, condition_from_json, wait
from airflow_stream_provider.planning.wait_outcome import Ended

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook


class StreamTrigger(BaseTrigger):
    """Look at a stream until a condition ends the wait or its deadline has passed. Never changes anything.

    There is no `on_kill` and no `cleanup` on purpose: both also run when the wait merely moves to another triggerer,
    and when a task is cleared while its next try is waiting already.

    :param address: of the stream; see `StreamHook.address`.
    :param condition: what to wait for, as JSON; see `planning.conditions`.
    :param deadline: seconds since 1970. Absolute, so that a restarted triggerer does not extend it.
    """

    def __init__(self, address: dict[str, Any], condition: dict[str, Any], deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.address = address
        self.condition = condition
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"address": self.address, "condition": self.condition, "deadline": self.deadline}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the WaitOutcome."""
        # Imported here: operators import this module, and parsing a DAG file needs no hook.
        from airflow_stream_provider.hooks.stream import StreamHook

        condition = condition_from_json(self.condition, Condition)
        hook = StreamHook(**self.address)
        looks = _StreamLooks(hook, condition)
        waited = await wait(condition, looks, self.deadline, subject=hook.stream, log=self.log)
        outcome = waited.outcome
        if outcome.ended is Ended.TIMEOUT:
            outcome = replace(outcome, evidence=_last_messages(waited.last))
        payload = replace(outcome, deadline=self.deadline).to_event()
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]


class _StreamLooks(Looks[Snapshot, Observations]):
    def __init__(self, hook: StreamHook, condition: Condition) -> None:
        self._hook = hook
        self._condition = condition
        self._last: Snapshot | None = None

    async def look(self, memory: Observations) -> Snapshot:
        self._last = await self._hook.aobserve(self._condition.needs(self._last, memory))
        return self._last

    async def pause(self) -> None:
        await asyncio.sleep(self._condition.pace)


def _last_messages(snapshot: Snapshot | None) -> Mapping[str, Any]:
    """What the drivers said last, by incarnation: the best hint at why a wait was in vain."""
    beats = snapshot.heartbeats if snapshot else {}
    return {name: f"{beat.phase}: {beat.message}".rstrip(": ") for name, beat in beats.items()}
