"""A notifier that measures a lag and tells people about it, through any notifiers of Airflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier, Context

from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.hooks.lag import look_at_lag
from airflow_stream_provider.lag.limits import LagLimits, LagLook
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert, lag_alert
from airflow_stream_provider.monitoring.delivery import deliver
from airflow_stream_provider.monitoring.recipients import named
from airflow_stream_provider.monitoring.samples import LagSample, read
from airflow_stream_provider.spec.lag_target import lag_target

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec

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

    def notify(self, context: Context) -> None:
        """Measure and send.

        :raises StreamError: somebody was not reached.
        """
        limits = self.stream.lag.limits if self.stream else LagLimits(verdicts=())
        try:
            look = look_at_lag(self.target, limits.moments)
        except StreamError as error:
            look = LagLook.failed(error)
        failure = str(context.get("exception") or "")
        alert = lag_alert(self.target.name, look, self._samples(), limits, reason=failure)
        self.log.warning("%s\n%s", alert.subject, alert.text)
        recipients = named(self.to)
        missed = recipients.keys() - deliver(alert, recipients, context)
        if missed:
            names = ", ".join(sorted(missed))
            raise StreamError(
                f"The alert {alert.incident} could not be delivered to {names}.", next_step="The log above says why."
            )

    def _samples(self) -> list[LagSample]:
        if not self.target.stream:
            return []
        try:
            return read(control_root(self.target.control).samples(self.target.stream))
        except StreamError as error:
            self.log.warning("The samples of the watch cannot be read: %s", error)
            return []
