"""The trigger that waits for a person's answer, and watches meanwhile what was asked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar
from uuid import UUID

from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.triggers.base import TriggerEvent

from airflow_stream_provider.planning.answer import Answered
from airflow_stream_provider.planning.condition import Condition
from airflow_stream_provider.triggers.stream import StreamTrigger

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
