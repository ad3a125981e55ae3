"""Send the alerts of one look at a folder: all of them together, within a bounded time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.folder_reading import FolderReading
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind
from airflow_stream_provider.monitoring.lag_alert import lag_alert
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.root_reads import RootReads
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.monitoring.telling import Told, tell

log = logging.getLogger(__name__)


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
        tell([*shared, *streams.values()], self._context, self._complete)
        self._keep({name: each for name, each in streams.items() if each.incidents != self._kept[name].incidents})

    def _of_stream(self, name: str, sample: LagSample) -> Told:
        return Told(name, sample.incidents, sample.at, recipients_of([self._reading.specs[name]]))

    def _complete(self, alerts: Sequence[Alert]) -> list[Alert]:
        history = self._history([alert for alert in alerts if alert.kind == IncidentKind.LAG])
        return [self._completed(alert, history) for alert in alerts]

    def _history(self, alerts: Iterable[Alert]) -> dict[str, list[LagSample]]:
        """Read the samples that alerts about a lag need: all of them to say what was lost since an incident began."""
        wanted: dict[str, Callable[[], list[LagSample]]] = {}
        for alert in alerts:
            sample = self._kept[alert.stream]
            lost = any(query.lost_ever for query in (*sample.queries.values(), *sample.earlier.values()))
            kept = self._reading.streams[alert.stream].hook.samples
            wanted[alert.stream] = partial(samples.read if lost and not alert.open else samples.recent, kept)
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
                    each.hook.samples,
                    replace(self._kept[name], incidents=told[name].incidents),
                )
                for name, each in self._reading.of_root(root, told).items()
            }
            for name, error in root.each(stored).items():
                if isinstance(error, Exception):
                    log.error("Who was told of %s cannot be kept; they are told again: %s", name, says(error))

        self._reading.in_roots(write)
