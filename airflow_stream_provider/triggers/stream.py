"""The trigger that waits for a stream to meet a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.condition import Condition, Observations
from airflow_stream_provider.planning.conditions import CONDITIONS
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.wait_loop import Looks, condition_from_json, wait
from airflow_stream_provider.planning.wait_outcome import Ended

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook


# A look at a log, heartbeats, cluster and Kafka takes far less; their own time-outs end most that would take longer.
LOOK_SECONDS = 60.0


class StreamTrigger(BaseTrigger):
    """Look at a stream until a condition ends the wait or its deadline has passed. Never changes anything.

    There is no `on_kill` and no `cleanup` on purpose: both also run when the wait merely moves to another triggerer,
    and when a task is cleared while its next try is waiting already.

    :param address: of the stream; see `StreamHook.address`.
    :param condition: what to wait for, as JSON; see `planning.conditions`.
    :param deadline: seconds since 1970. Absolute, so that a restarted triggerer does not extend it. When it has passed
        before the trigger starts, because no triggerer ran, it still looks once.
    """

    conditions: ClassVar[tuple[type[Condition], ...]] = CONDITIONS
    """The conditions that it can wait for."""

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

        condition = condition_from_json(self.condition, self.conditions)
        hook = StreamHook(**self.address)
        looks = _StreamLooks(hook, condition)
        try:
            waited = await wait(condition, looks, self.deadline, subject=hook.stream, log=self.log)
        finally:
            looks.close()
        outcome = waited.outcome
        if outcome.ended is Ended.TIMEOUT:
            outcome = replace(outcome, evidence=_last_messages(waited.last))
        payload = replace(outcome, deadline=self.deadline).to_event()
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]


class _StreamLooks(Looks[Snapshot, Observations]):
    """Looks in a thread of its own: a folder that hangs takes no thread from other triggers."""

    def __init__(self, hook: StreamHook, condition: Condition) -> None:
        self._hook = hook
        self._condition = condition
        self._last: Snapshot | None = None
        self._looking: asyncio.Task[Snapshot] | None = None

    async def look(self, memory: Observations) -> Snapshot:
        # A look cannot be cut off, and the hook is not made for two at a time: the next one waits for it again.
        looking = self._looking or asyncio.create_task(self._hook.aobserve(self._condition.needs(self._last, memory)))
        self._looking = looking
        done, _ = await asyncio.wait((looking,), timeout=LOOK_SECONDS)
        if not done:
            raise StreamError(
                f"A look has taken longer than {LOOK_SECONDS:.0f} s.",
                next_step="See whether the control folder and the cluster answer on the triggerer's machine.",
            )
        self._looking = None
        self._last = looking.result()
        return self._last

    def close(self) -> None:
        """Do not look any more; a look that hangs keeps its thread until it ends."""
        if self._looking is not None:
            self._looking.cancel()

    async def pause(self) -> None:
        await asyncio.sleep(self._condition.pace)


def _last_messages(snapshot: Snapshot | None) -> Mapping[str, Any]:
    """The drivers' last messages, by incarnation: the best hint at why a wait was in vain."""
    beats = snapshot.heartbeats if snapshot else {}
    return {name: f"{beat.phase}: {beat.message}".rstrip(": ") for name, beat in beats.items()}
