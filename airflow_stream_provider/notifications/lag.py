"""Tell people that a stream is behind, by whatever notifiers Airflow has."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from airflow_stream_provider.control import FilesStore
from airflow_stream_provider.hooks.connections import akafka_extra, kafka_extra
from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.streaks import Incident
from airflow_stream_provider.lag.targets import LagTarget, measure_lag
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import LagAlert, growth
from airflow_stream_provider.monitoring.delivery import deliver, named
from airflow_stream_provider.monitoring.lag_history import bad_since
from airflow_stream_provider.monitoring.samples import LagSample, read

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

Recipient = BaseNotifier | Callable[[LagAlert], Any]


class LagNotifier(BaseNotifier):
    """Say how far a stream is behind, since when, how fast that grows and how it will end.

    For `on_failure_callback` of a `KafkaLagSensor`, and for everything else that takes a notifier. It measures anew, so
    that it is right also when it is called late, and reads the samples of the stream's watch for what was before. A lag
    that cannot be measured now is told too, with the reason.

        KafkaLagSensor(..., on_failure_callback=LagNotifier(
            stream=spec, to=[SmtpNotifier(to="on-call@example.org", subject="{{ alert.subject }}",
                                          html_content="<pre>{{ alert.text }}</pre>")]
        ))

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`, Airflow connection of type `kafka`.
    :param to: what brings it to people: notifiers of Airflow, in whose templates `alert` is a `LagAlert`, or functions
        that take one. It is also written to the task's log.
    """

    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        group: str = "",
        kafka: str = "",
        to: Sequence[Recipient] = (),
        context: Context | None = None,
    ) -> None:
        super().__init__(context=context)
        self.stream = stream
        self.target = LagTarget.of(stream, group, kafka)
        self.to = tuple(to)

    def notify(self, context: Context) -> None:
        """Measure and send; from a task or the DAG processor."""
        try:
            report, problem = measure_lag(self.target, kafka_extra(self.target.kafka)), ""
        except StreamError as error:
            report, problem = None, str(error)
        alert = self._alert(context, report, problem)
        self.log.warning("%s\n%s", alert.subject, alert.text)
        to = named(self.to)
        self._all_told(alert, to.keys() - deliver(alert, to, context))

    async def async_notify(self, context: Context) -> None:
        """Measure and send; from the triggerer."""
        try:
            extra = await akafka_extra(self.target.kafka)
            report, problem = await asyncio.to_thread(measure_lag, self.target, extra), ""
        except StreamError as error:
            report, problem = None, str(error)
        alert = await asyncio.to_thread(self._alert, context, report, problem)
        self.log.warning("%s\n%s", alert.subject, alert.text)
        to = named(self.to)
        given = await asyncio.gather(*(_give(each, alert, context) for each in to.values()), return_exceptions=True)
        missed = {name: why for name, why in zip(to, given, strict=True) if why is not None}
        for name, why in missed.items():
            self.log.error("%s could not be told of %s", name, alert.incident, exc_info=why)
        self._all_told(alert, missed)

    def _all_told(self, alert: LagAlert, missed: Iterable[str]) -> None:
        if missed:
            who = ", ".join(sorted(missed))
            raise StreamError(f"{who} could not be told of {alert.incident}.", next_step="The log above says why.")

    def _alert(self, context: Mapping[str, Any], report: LagReport | None, problem: str) -> LagAlert:
        limits = self.stream.lag.limits if self.stream else LagLimits(verdicts=())
        return alert_of(
            self.target.name, report, problem or str(context.get("exception") or ""), self._samples(), limits
        )

    def _samples(self) -> list[LagSample]:
        if not self.target.stream:
            return []
        try:
            return read(FilesStore.at(self.target.control, self.target.stream))
        except StreamError as error:
            self.log.warning("What was before is not known: %s", error)
            return []


async def _give(each: Recipient, alert: LagAlert, context: Mapping[str, Any]) -> None:
    if isinstance(each, BaseNotifier):
        notifier = copy.copy(each)
        known: Any = {**context, "alert": alert}
        notifier.context = known
        await notifier
    else:
        await asyncio.to_thread(each, alert)


def alert_of(
    name: str,
    report: LagReport | None,
    problem: str,
    samples: Sequence[LagSample],
    limits: LagLimits,
    incident: Incident | None = None,
    links: Mapping[str, str] | None = None,
) -> LagAlert:
    """Return what is to be told of a lag.

    :param report: None when it could not be measured, and `problem` says why; else that is told where the limits find
        nothing wrong (somebody else did, with limits of his own).
    :param samples: of the stream's watch, oldest first.
    :param incident: which one, when the caller keeps count; default: it began with the first of the bad samples.
    """
    at = time.time() if report is None else report.at
    found = None if report is None else limits.judge(report)
    bad = found is not None and found.health is not Health.PASS
    incident = incident or Incident.of(name, bad_since(samples, limits, at))
    points = [(sample.at, sample.records) for sample in samples]
    return LagAlert(
        stream=name,
        incident=incident.id,
        since=incident.since,
        at=at,
        reasons=found.reasons if found and bad else tuple(filter(None, (problem,))),
        records=report.records if report else None,
        seconds=report.seconds if report else None,
        growth=growth([*points, (at, report.records if report else None)]),
        deleted_in=min((q.retention_seconds for q in report.queries if q.retention_seconds is not None), default=None)
        if report
        else None,
        links=links or {},
    )
