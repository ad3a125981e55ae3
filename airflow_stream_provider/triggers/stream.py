"""The triggers that wait for a stream to meet a condition, and for a person's answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.conditions import CONDITIONS
from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.waits import (
    Condition,
    Ended,
    Looks,
    Needs,
    Observations,
    condition_from_json,
    wait,
)

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
        return await self._look(self._condition.needs(self._last, memory))

    async def look_less(self) -> Snapshot | None:
        """Look at the log and the heartbeats: what they say counts while a connection to cluster or Kafka is away."""
        try:
            return None if self._looking is not None else await self._look(Needs())
        except StreamError:
            return None  # why, the look before has said

    async def _look(self, needs: Needs) -> Snapshot:
        # A look cannot be cut off, and the hook is not made for two at a time: the next one waits for it again.
        looking = self._looking or asyncio.create_task(self._hook.aobserve(needs))
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


# Airflow resumes the task itself on an answer; only one that is faster than the task's deferral is found here.
ASK_SECONDS = 5.0


class ApprovalTrigger(StreamTrigger):
    """Wait until a person answers, there is nothing left to decide, or the deadline has passed.

    Its event is that of Airflow's own trigger when there is an answer, else a WaitOutcome.

    :param ti_id: id of the task instance that asks.
    :param options: the answers that can be given.
    """

    conditions: ClassVar[tuple[type[Condition], ...]] = (Answered,)

    def __init__(self, *, ti_id: str, options: list[str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.ti_id = ti_id
        self.options = options

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on."""
        path, arguments = super().serialize()
        return path, {**arguments, "ti_id": self.ti_id, "options": self.options}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event."""
        watch = super().run()
        waits = [asyncio.ensure_future(anext(watch)), asyncio.ensure_future(self._answer())]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            # An answer that comes with the end of the time is one.
            event = next(each for each in reversed(waits) if each in done).result()
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        yield event

    async def _answer(self) -> TriggerEvent:
        asked = HITLTrigger(
            ti_id=UUID(self.ti_id),
            options=self.options,
            params={},
            timeout_datetime=None,
            poke_interval=ASK_SECONDS,
        )
        said = False
        while True:
            try:
                return await anext(asked.run())
            except Exception as error:  # noqa: BLE001 - an API server that is away must not end the wait
                if not said:
                    self.log.warning("Whether somebody has answered cannot be seen now: %s", error)
                said = True
            await asyncio.sleep(ASK_SECONDS)
