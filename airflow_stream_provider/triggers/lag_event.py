"""Schedule DAGs by a lag: one event when it becomes bad, and one when it is good again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_stream_provider.lag.limits import LagLimits, LagLook, Moments, Streaks
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.monitoring.incidents import Incident, Stored, incident_now
from airflow_stream_provider.spec.lag_target import lag_target
from airflow_stream_provider.triggers.shared_reader import SharedReader, next_tick, shared_reader

if TYPE_CHECKING:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

    from airflow_stream_provider.spec.stream import StreamSpec

STATE = "lag_incident"


@dataclass(frozen=True)
class _Event(Stored):
    """The last event of an asset: `kind` is open or close, `sent` whether Airflow has certainly sent it."""

    kind: str
    incident: Incident
    sent: bool = False


class LagEventTrigger(BaseEventTrigger):
    """Send an event when a lag has become bad, and when it is good again; made by `of`, for an `AssetWatcher`.

        behind = Asset("orders_behind", watchers=[
            AssetWatcher(name="lag", trigger=LagEventTrigger.of(stream=load_spec("streams/orders.yaml"), seconds=120))
        ])

    A DAG with `schedule=[behind]` finds in `triggering_asset_events[behind][-1].extra["payload"]`: `event` (`open` or
    `close`), `incident` (the same id for both), `stream`, `since` and `at` (seconds since 1970), `reasons` (sentences)
    and `lag` (see `KafkaLagOperator`, without partitions).

    The open incident is kept in the asset's state store, so that it outlives the triggerer. An event that a triggerer
    was about to send when it died is sent again, with the same id. (Airflow 3.2 has no such store: an incident ends
    with the triggerer.) An unknown lag neither opens nor closes an incident.

    :param target: whose lag; a LagTarget as JSON.
    :param limits: beyond which it is bad; LagLimits as JSON.
    :param seconds: for which the lag must be bad to open an incident, and good to close it.
    :param interval: seconds between two looks; see `LagTrigger`.
    """

    asset_state_store: AssetStateStoreAccessors | None = None  # Airflow 3.2 has none

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

        :param limits: default for a stream: those of its YAML's `lag`. Required for a group, without verdicts.
        :raises SpecError: no target, or no usable limits are given.
        """
        target = lag_target(stream, group, kafka)
        if limits is None and stream is not None:
            limits = stream.lag.limits
        if limits is None or (target.group and limits.verdicts):
            raise SpecError(
                f"The group {group} needs limits without verdicts: Kafka does not record when a group committed.",
                next_step="Give limits=LagLimits(max_records=…, verdicts=()).",
            )
        return cls(target.to_json(), limits.to_json(), seconds, interval)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on; Airflow runs equal triggers as one."""
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
        last = await self._load()
        present = last.incident if last is not None and last.kind == "open" else None
        unsent = last if last is not None and not last.sent else None
        streaks = Streaks(bad=present.since) if present else Streaks()
        since = time.time() - self.interval
        async with shared_reader(target.kafka) as reader:
            while True:
                look = await self._look(reader, target, since, limits.moments)
                judgement = look.judge(limits)
                streaks.add(judgement.health, look.at)
                # One event at a time: a change since an event that is not sent yet waits until it is.
                if unsent is None:
                    now = incident_now(target.name, present, streaks, look.at, self.seconds)
                    if now != present:
                        changed = now or present
                        assert changed is not None
                        unsent = _Event("open" if now else "close", changed)
                        present = now
                sent = None
                if unsent is not None and look.report is not None:
                    # Saved before and after: an event that was perhaps not sent is sent again.
                    await self._save(unsent)
                    yield self._event(unsent, look.at, look.report, judgement.reasons)
                    sent, unsent = unsent, None
                since = await next_tick(self.interval)
                if sent is not None:
                    # Not at once: Airflow's triggerer keeps an event for a second before it sends it.
                    await self._save(replace(sent, sent=True))

    async def _look(self, reader: SharedReader, target: LagTarget, since: float, moments: Moments) -> LagLook:
        try:
            look = await reader.look(target, since, moments)
        except StreamError as error:
            look = LagLook.failed(error)
        if look.problem:
            self.log.warning("The lag of %s cannot be measured now: %s", target.name, look.problem)
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

    async def _load(self) -> _Event | None:
        if self.asset_state_store is None:  # outside a triggerer
            return None
        try:
            kept = await self.asset_state_store.aget(STATE)
        except ValueError as error:
            # Airflow runs equal triggers of two assets as one, and then refuses it a state store.
            raise StreamError(
                f"Two assets watch {LagTarget(**self.target).name} in exactly the same way.",
                next_step="Let one asset watch it, and schedule both DAGs by that asset.",
            ) from error
        try:
            return _Event.from_json(kept) if kept else None
        except ValueError as error:
            # An asset's store outlives upgrades, and cannot be cleared: a trigger that fails here never runs again.
            self.log.warning("What was kept of the last lag event is not readable; it begins anew: %s", error)
            return None

    async def _save(self, event: _Event) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(STATE, event.to_json())
