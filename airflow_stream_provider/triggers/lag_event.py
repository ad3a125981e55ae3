"""Let DAGs be scheduled by a lag: one event when it becomes bad, one when it is good again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.streaks import Incident, Streaks, incident_now
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.planning.lag_conditions import Look
from airflow_stream_provider.triggers.reader import SharedReader, next_tick, shared_reader

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

STATE = "lag_incident"


@dataclass(frozen=True)
class _Event:
    """The last event of an asset: what became of which incident, and whether it was certainly sent."""

    kind: str
    incident: Incident
    told: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "incident": self.incident.to_json(), "told": self.told}

    @classmethod
    def from_json(cls, data: Any) -> _Event | None:
        if not data:
            return None
        return cls(str(data["kind"]), Incident.from_json(data["incident"]), bool(data["told"]))


class LagEventTrigger(BaseEventTrigger):
    """Say when a lag has become bad, and when it is good again; made by `of`, for an `AssetWatcher`.

        behind = Asset("orders_behind", watchers=[
            AssetWatcher(name="lag", trigger=LagEventTrigger.of(stream=load_spec("streams/orders.yaml"), seconds=120))
        ])

    A DAG with `schedule=[behind]` finds in `triggering_asset_events[behind][-1].extra["payload"]`: `event` (`open` or
    `close`), `incident` (the same id for both), `stream`, `since` and `at` (seconds since 1970), `reasons` (sentences)
    and `lag` (see `KafkaLagOperator`, without partitions).

    The open incident is kept in the asset's store, so that it outlives the triggerer. An event that a triggerer was
    about to send when it died is sent again, with the same id. What cannot be known neither opens nor closes anything.

    :param target: whose lag; see `LagTarget`.
    :param limits: what is bad; see `LagLimits`.
    :param seconds: for which it must have been bad to open, and good to close.
    :param interval: seconds between two looks; see `LagTrigger`.
    """

    def __init__(
        self, target: dict[str, Any], limits: dict[str, Any], seconds: float = 0.0, interval: float = 30.0
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.target = target
        self.limits = limits
        self.seconds = seconds
        self.interval = interval

    @classmethod
    def of(
        cls,
        *,
        stream: StreamSpec | None = None,
        group: str = "",
        kafka: str = "",
        limits: LagLimits | None = None,
        seconds: float = 0.0,
        interval: float = 30.0,
    ) -> LagEventTrigger:
        """Return the trigger of a stream as read by `load_spec`, or of a consumer group of a Kafka connection.

        :param limits: default for a stream: those of its YAML's `lag`. A group needs some, without verdicts.
        """
        target = LagTarget.of(stream, group, kafka)
        if limits is None and stream is not None:
            limits = stream.lag.limits
        if limits is None or (target.group and limits.verdicts):
            raise SpecError(
                f"What is too much lag for the group {group}?",
                next_step="Give limits=LagLimits(max_records=…, verdicts=()): Kafka does not say when a "
                "group committed.",
            )
        return cls(target.to_json(), limits.to_json(), seconds, interval)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on; equal triggers are one to Airflow."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {
            "target": self.target,
            "limits": self.limits,
            "seconds": self.seconds,
            "interval": self.interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event whenever an incident opens or closes; never ends by itself."""
        target, limits = LagTarget(**self.target), LagLimits.from_json(self.limits)
        last = _Event.from_json(await self._load())
        present = last.incident if last is not None and last.kind == "open" else None
        untold = last if last is not None and not last.told else None
        streaks = Streaks(bad=present.since) if present else Streaks()
        since = time.time() - self.interval
        async with shared_reader(target.kafka) as reader:
            while True:
                look = await self._look(reader, target, since)
                found = look.judge(limits)
                streaks.add(found.health, look.at)
                # One at a time: what has changed since an event that is still to be sent is seen after it.
                if untold is None:
                    now = incident_now(target.name, present, streaks, look.at, self.seconds)
                    if now != present:
                        changed = now or present
                        assert changed is not None
                        untold = _Event("open" if now else "close", changed)
                        present = now
                sent = None
                if untold is not None and look.report is not None:
                    # Noted before and after: what was not certainly sent is sent again.
                    await self._save(untold)
                    yield self._event(untold, look.at, look.report, found.reasons)
                    sent, untold = untold, None
                since = await next_tick(self.interval)
                if sent is not None:
                    # Not at once: Airflow's triggerer keeps what is yielded for a second before it sends it.
                    await self._save(replace(sent, told=True))

    async def _look(self, reader: SharedReader, target: LagTarget, since: float) -> Look:
        try:
            look = await reader.look(target, since)
        except SpecError as error:
            look = Look(time.time(), None, str(error))
        if look.problem:
            self.log.warning("The lag of %s cannot be known now: %s", target.name, look.problem)
        return look

    def _event(self, event: _Event, at: float, report: LagReport, reasons: tuple[str, ...]) -> TriggerEvent:
        payload = {
            "event": event.kind,
            "incident": event.incident.id,
            "stream": LagTarget(**self.target).name,
            "since": event.incident.since,
            "at": at,
            "reasons": list(reasons),
            "lag": summary(report, LagLimits.from_json(self.limits).ceilings, partitions=False),
        }
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]

    async def _load(self) -> Any:
        if self.asset_state_store is None:  # outside a triggerer
            return None
        try:
            return await self.asset_state_store.aget(STATE)
        except ValueError as error:
            # Airflow runs equal triggers as one, and then has no place for what it remembers.
            raise StreamError(
                f"Two assets watch {LagTarget(**self.target).name} in exactly the same way.",
                next_step="Let one asset watch it, and both DAGs be scheduled by that.",
            ) from error

    async def _save(self, event: _Event) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(STATE, event.to_json())
