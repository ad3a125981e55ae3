"""The one trigger: looks at a stream until a goal is reached. It never acts, not even when it is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_stream_provider.hooks.goals import Memory, goal_from_json
from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.model.errors import StreamError


class StreamTrigger(BaseTrigger):
    """Wait until a goal of a stream is reached, lost, or its time is over.

    There is no `on_kill` and no `cleanup` on purpose: both also run when the wait merely moves to another triggerer,
    and when a task is cleared while its next try is waiting already.

    :param address: of the stream; see `StreamHook.address`.
    :param goal: what to wait for; see `hooks.goals`.
    :param deadline: seconds of the wall clock. Absolute, so that a restarted triggerer does not begin anew.
    """

    def __init__(self, address: dict[str, Any], goal: dict[str, Any], deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.address = address
        self.goal = goal
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"address": self.address, "goal": self.goal, "deadline": self.deadline}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the outcome of the wait."""
        # Here: operators import this module, and a DAG file that is parsed needs no hook.
        from airflow_stream_provider.hooks.stream import StreamHook

        goal, hook, memory = goal_from_json(self.goal), StreamHook(**self.address), Memory()
        last: Snapshot | None = None
        trouble = ""
        self.log.info("Waiting for %s.", goal.says)
        while time.time() < self.deadline:
            try:
                last = await hook.aobserve(goal.asks(last, memory))
                outcome = goal.check(last, memory)
                trouble = ""
            except StreamError as error:
                # What could not be watched was not seen to stand still, nor to lag.
                memory, outcome = Memory(), None
                if str(error) != trouble:
                    trouble = str(error)
                    self.log.warning("The stream cannot be read now: %s", error)
            if outcome is not None:
                self.log.info("%s: %s", outcome.ended.value, outcome.reason or goal.says)
                yield self._event(outcome)
                return
            await asyncio.sleep(goal.pace)
        reason = f"waited in vain for {goal.says}" + (f"; {trouble}" if trouble else "")
        timeout = Outcome(Ended.TIMEOUT, reason=reason, evidence=_last_words(last))
        yield self._event(timeout)

    def _event(self, outcome: Outcome) -> TriggerEvent:
        payload = replace(outcome, deadline=self.deadline).to_event()
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]


def _last_words(view: Snapshot | None) -> Mapping[str, Any]:
    """What the drivers said last, by incarnation: it is the best hint at why a wait was in vain."""
    beats = view.heartbeats if view else {}
    return {name: f"{b.get('phase', '?')}: {b.get('message', '')}".rstrip(": ") for name, b in beats.items()}
