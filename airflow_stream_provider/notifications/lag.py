"""A notifier that measures a lag and tells people about it, through any notifiers of Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.hooks.connections import akafka_extra, kafka_extra
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lag.limits import LagLimits, LagLook
from airflow_stream_provider.lag.reader import measure_lag
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert, lag_alert
from airflow_stream_provider.monitoring.delivery import deliver, deliver_async
from airflow_stream_provider.monitoring.recipients import named
from airflow_stream_provider.monitoring.samples import LagSample, read
from airflow_stream_provider.spec.lag_target import lag_target

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

# In the triggerer; a measurement's own time-outs end most that would take longer.
LOOK_SECONDS = 60.0

Recipient = BaseNotifier | Callable[[Alert], Any]


class LagNotifier(BaseNotifier):
    """Tell how far a stream is behind, since when, how fast that grows and how it will go on.

    For `on_failure_callback` of a `KafkaLagSensor`, and for everything else that takes a notifier. It measures again,
    so that its numbers are right even if Airflow calls it late, and takes the growth from the samples of the stream's
    watch. A lag that cannot be measured is told too, with the reason.

        KafkaLagSensor(..., on_failure_callback=LagNotifier(
            stream=spec, to=[SmtpNotifier(to="on-call@example.org", subject="{{ alert.subject }}",
                                          html_content="{{ alert.html }}")]
        ))

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`, Airflow connection of type `kafka`.
    :param to: recipients: notifiers of Airflow, in whose templates `alert` is an Alert, or functions that take one. The
        alert is also written to the task's log.
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
        self.target = lag_target(stream, group, kafka)
        self.to = tuple(to)

    # A task and the DAG processor call `notify`, the triggerer `async_notify`. They differ only in how connections are
    # read, which threads of the triggerer cannot do, and in which method of the other notifiers is called.

    def notify(self, context: Context) -> None:
        """Measure and send; in a task or the DAG processor."""
        try:
            extra: Mapping[str, Any] | StreamError = kafka_extra(self.target.kafka)
        except StreamError as error:
            extra = error
        alert = self._alert(context, extra)
        self._check(alert, deliver(alert, named(self.to), context))

    async def async_notify(self, context: Context) -> None:
        """Measure and send; in the triggerer."""
        try:
            extra: Mapping[str, Any] | StreamError = await akafka_extra(self.target.kafka)
        except StreamError as error:
            extra = error
        measuring = start(partial(self._alert, context, extra), f"alert-{self.target.name}")
        try:
            alert = await asyncio.wait_for(asyncio.wrap_future(measuring), LOOK_SECONDS)
        except TimeoutError:
            alert = self._unmeasured(context)
        self._check(alert, await deliver_async(alert, named(self.to), context))

    def _alert(self, context: Mapping[str, Any], extra: Mapping[str, Any] | StreamError) -> Alert:
        return self._written(context, self._look(extra), self._samples())

    def _unmeasured(self, context: Mapping[str, Any]) -> Alert:
        hangs = StreamError(
            f"The lag could not be measured within {LOOK_SECONDS:.0f} s.",
            next_step="Look at Kafka, and at the mounts of the control folder and of the checkpoints on this machine.",
        )
        return self._written(context, LagLook.failed(hangs), [])

    def _written(self, context: Mapping[str, Any], look: LagLook, samples: Sequence[LagSample]) -> Alert:
        failure = str(context.get("exception") or "")
        alert = lag_alert(self.target.name, look, samples, self._limits, reason=failure)
        self.log.warning("%s\n%s", alert.subject, alert.text)
        return alert

    @property
    def _limits(self) -> LagLimits:
        return self.stream.lag.limits if self.stream else LagLimits(verdicts=())

    def _look(self, extra: Mapping[str, Any] | StreamError) -> LagLook:
        try:
            if isinstance(extra, StreamError):
                raise extra
            report = measure_lag(self.target, extra, control_root, self._limits.moments)
        except StreamError as error:
            return LagLook.failed(error)
        return LagLook.of(report)

    def _samples(self) -> list[LagSample]:
        if not self.target.stream:
            return []
        try:
            return read(control_root(self.target.control).samples(self.target.stream))
        except StreamError as error:
            self.log.warning("The samples of the watch cannot be read: %s", error)
            return []

    def _check(self, alert: Alert, delivered: set[str]) -> None:
        missed = named(self.to).keys() - delivered
        if missed:
            names = ", ".join(sorted(missed))
            raise StreamError(
                f"The alert {alert.incident} could not be delivered to {names}.", next_step="The log above says why."
            )
