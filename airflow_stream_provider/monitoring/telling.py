"""Send the alerts that are due of the incidents of many subjects together, and keep who was told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.monitoring.alert import Alert, pending_alerts
from airflow_stream_provider.monitoring.delivery import DELIVERY_SECONDS, Letter, deliver_all
from airflow_stream_provider.monitoring.incidents import IncidentState

# Seconds for all of it. A recipient that hangs is left behind, and is tried again at the next look.
SECONDS = DELIVERY_SECONDS


@dataclass
class Told:
    """The incidents of one subject, and who is told of them.

    :param subject: what alerts are about; see `Alert.stream`.
    :param incidents: by kind; afterwards with what was delivered.
    :param at: time of the look, seconds since 1970.
    :param recipients: by what is equal at every look; see `recipients_of`.
    """

    subject: str
    incidents: Mapping[str, IncidentState]
    at: float
    recipients: Mapping[str, Any]

    def pending(self) -> list[tuple[Alert, list[str]]]:
        """Return the alerts that are due, each with the names of those who have not got it."""
        return pending_alerts(self.subject, self.incidents, self.at, self.recipients)

    def acknowledge(self, alert: Alert, delivered: Iterable[str]) -> None:
        """Keep who got an alert."""
        state = self.incidents[alert.kind].acknowledge(delivered, open=alert.open)
        self.incidents = {**self.incidents, alert.kind: state}


def tell(
    all_told: Sequence[Told],
    context: Mapping[str, Any],
    complete: Callable[[Sequence[Alert]], Sequence[Alert]] = lambda alerts: alerts,
) -> None:
    """Send what is due; each `Told` says afterwards who got it.

    :param context: of the task, for the templates of notifiers.
    :param complete: returns the alerts with what is worth finding out only for those that are sent.
    """
    due = [(told, *each) for told in all_told for each in told.pending()]
    letters = [
        Letter(alert, {name: told.recipients[name] for name in names})
        for (told, _, names), alert in zip(due, complete([alert for _, alert, _ in due]), strict=True)
    ]
    for (told, alert, _), delivered in zip(due, deliver_all(letters, context, SECONDS), strict=True):
        told.acknowledge(alert, delivered)
