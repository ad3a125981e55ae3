"""The one trigger: looks at a stream until a goal is reached. It never acts, not even when it is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.conditions import Observations, condition_from_json
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome


class StreamTrigger(BaseTrigger):
    """Wait until a goal of a stream is reached, lost, or its time is over.

    There is no `on_kill` and no `cleanup` on purpose: both also run when the wait merely moves to another triggerer,
    and when a task is cleared while its next try is waiting already.

    :param address: of the stream; see `StreamHook.address`.
    :param goal: what to wait for; see `hooks.goals`.
    :param deadline: seconds of the wall clock. Absolute, so that a restarted triggerer does not begin anew.
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
        """Yield one event: the outcome of the wait."""
        # Here: operators import this module, and a DAG file that is parsed needs no hook.
        from airflow_stream_provider.hooks.stream import StreamHook

        condition, hook, seen = condition_from_json(self.condition), StreamHook(**self.address), Observations()
        last: Snapshot | None = None
        trouble = ""
        self.log.info("Waiting for %s.", condition.description)
        while time.time() < self.deadline:
            try:
                last = await hook.aobserve(condition.needs(last, seen))
                outcome = condition.check(last, seen)
                trouble = ""
            except StreamError as error:
                # What could not be watched was not seen to stand still, nor to lag.
                seen, outcome = Observations(), None
                if str(error) != trouble:
                    trouble = str(error)
                    self.log.warning("The stream cannot be read now: %s", error)
            if outcome is not None:
                self.log.info("%s: %s", outcome.ended.value, outcome.reason or condition.description)
                yield self._event(outcome)
                return
            await asyncio.sleep(condition.pace)
        reason = f"waited in vain for {condition.description}" + (f"; {trouble}" if trouble else "")
        timeout = WaitOutcome(Ended.TIMEOUT, reason=reason, evidence=_last_words(last))
        yield self._event(timeout)

    def _event(self, outcome: WaitOutcome) -> TriggerEvent:
        payload = replace(outcome, deadline=self.deadline).to_event()
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]


def _last_words(snapshot: Snapshot | None) -> Mapping[str, Any]:
    """What the drivers said last, by incarnation: it is the best hint at why a wait was in vain."""
    beats = snapshot.heartbeats if snapshot else {}
    return {name: f"{beat.phase}: {beat.message}".rstrip(": ") for name, beat in beats.items()}
