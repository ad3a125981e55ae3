"""Send the alerts of one look at a folder: all of them together, within a bounded time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.alert import Alert, pending_alerts
from airflow_stream_provider.monitoring.delivery import DELIVERY_SECONDS, Letter, deliver_all
from airflow_stream_provider.monitoring.folder_reading import FolderReading
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, IncidentState
from airflow_stream_provider.monitoring.lag_alert import lag_alert
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.root_reads import RootReads
from airflow_stream_provider.monitoring.samples import LagSample

log = logging.getLogger(__name__)

# Seconds for all alerts of a look. Who hangs is left behind, and is tried again at the next look.
SECONDS = DELIVERY_SECONDS


@dataclass
class Told:
    """The incidents of one subject, and who is told of them.

    :param subject: what alerts are about; see `Alert.stream`.
    :param incidents: by kind; afterwards with what was delivered.
    :param at: time of the look, seconds since 1970.
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
        known = Incident(alert.incident, alert.since)
        state = self.incidents[alert.kind].acknowledge(known, delivered, open=alert.open)
        self.incidents = {**self.incidents, alert.kind: state}


class FolderAlerts:
    """The alerts of one look.

    :param reading: what the look has read.
    :param lags: what it has found of each stream's lag.
    :param kept: the samples that it has kept.
    :param context: of the task, for the templates of notifiers.
    """

    def __init__(
        self,
        reading: FolderReading,
        lags: Mapping[str, LagLook | None],
        kept: Mapping[str, LagSample],
        context: Mapping[str, Any],
    ) -> None:
        self._reading = reading
        self._lags = lags
        self._kept = kept
        self._context = context

    def send(self, shared: Iterable[Told]) -> None:
        """Send what is due of these and of each stream, and keep in the streams' samples who was told.

        :param shared: incidents that no sample keeps; they say afterwards who was told.
        """
        streams = {name: self._of_stream(name, sample) for name, sample in self._kept.items()}
        due = [(told, *each) for told in (*shared, *streams.values()) for each in told.pending()]
        history = self._history([alert for _, alert, _ in due if alert.kind == IncidentKind.LAG])
        letters = [
            Letter(self._completed(alert, history), {name: told.recipients[name] for name in names})
            for told, alert, names in due
        ]
        for (told, alert, _), delivered in zip(due, deliver_all(letters, self._context, SECONDS), strict=True):
            told.acknowledge(alert, delivered)
        self._keep({name: each for name, each in streams.items() if each.incidents != self._kept[name].incidents})

    def _of_stream(self, name: str, sample: LagSample) -> Told:
        return Told(name, sample.incidents, sample.at, recipients_of(self._reading.specs[name]))

    def _history(self, alerts: Iterable[Alert]) -> dict[str, list[LagSample]]:
        """Read the samples that alerts about a lag need: all of them to say what was lost since an incident began."""
        wanted: dict[str, Callable[[], list[LagSample]]] = {}
        for alert in alerts:
            sample = self._kept[alert.stream]
            lost = any(query.lost_ever for query in (*sample.queries.values(), *sample.earlier.values()))
            store = self._reading.streams[alert.stream].hook.control_log.store
            wanted[alert.stream] = partial(samples.read if lost and not alert.open else samples.recent, store)
        found: dict[str, list[LagSample]] = {}

        def look(root: RootReads) -> None:
            answers = root.each({name: wanted[name] for name in self._reading.of_root(root, wanted)})
            found.update({name: each for name, each in answers.items() if not isinstance(each, Exception)})

        self._reading.in_roots(look)
        return found

    def _completed(self, alert: Alert, history: Mapping[str, list[LagSample]]) -> Alert:
        reading = self._reading.streams.get(alert.stream)
        if reading is None or alert.stream not in self._lags:
            return alert
        links = self._reading.links(reading)
        if alert.kind != IncidentKind.LAG:
            return replace(alert, links=links)
        look = self._lags[alert.stream] or LagLook(alert.at, None)
        incident, limits = Incident(alert.incident, alert.since), reading.spec.lag.limits
        # Without this look's own sample, whose numbers the look has.
        earlier = [sample for sample in history.get(alert.stream, []) if sample.at < alert.at]
        return lag_alert(alert.stream, look, earlier, limits, open=alert.open, incident=incident, links=links)

    def _keep(self, told: Mapping[str, Told]) -> None:
        def write(root: RootReads) -> None:
            stored = {
                name: partial(
                    samples.append,
                    each.hook.control_log.store,
                    replace(self._kept[name], incidents=told[name].incidents),
                )
                for name, each in self._reading.of_root(root, told).items()
            }
            for name, error in root.each(stored).items():
                if isinstance(error, Exception):
                    log.error("Who was told of %s cannot be kept; they are told again: %s", name, says(error))

        self._reading.in_roots(write)
