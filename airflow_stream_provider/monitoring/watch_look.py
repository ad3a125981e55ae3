"""A look of the watch: make a sample of what was found, and send the alerts that are due."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.monitoring.alert import Alert, pending_alerts
from airflow_stream_provider.monitoring.delivery import deliver
from airflow_stream_provider.monitoring.health import symptoms
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, update_incidents
from airflow_stream_provider.monitoring.lag_alert import lag_alert
from airflow_stream_provider.monitoring.recipients import named
from airflow_stream_provider.monitoring.samples import LagSample, last_queries, queries_of
from airflow_stream_provider.monitoring.silence import sign_of_life, silent_since
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_lag

log = logging.getLogger(__name__)


def sample_of(
    snapshot: Snapshot,
    lag: LagLook | None,
    samples: Sequence[LagSample],
    limits: LagLimits,
    for_at_least: float,
) -> LagSample:
    """Judge what a look found, and return it as the next sample.

    :param lag: None when the stream names no Kafka.
    :param samples: of earlier looks, oldest first.
    :param for_at_least: seconds for which the lag must be bad, or good, before it counts.
    """
    judgement = judge_lag(snapshot, lag.report, limits, lag.problem) if lag else None
    holder = snapshot.state.holder
    silent = silent_since(samples, holder, snapshot.counter(holder)) if holder else None
    illegal = samples[0].illegal if samples else 0
    found = symptoms(snapshot, judgement, silent, for_at_least, illegal)
    for kind, symptom in found.items():
        if symptom.health is Health.FAIL:
            log.warning("%s: %s", kind.value, symptom.description)
    held = snapshot.state.holding_deployment
    sign = sign_of_life(snapshot, samples)
    before = samples[-1].incidents if samples else {}
    return LagSample(
        at=time.time(),
        phase=sign.phase,
        silent_seconds=sign.silent_seconds,
        version=held.release.version if held else "",
        queries=queries_of(lag.report, limits.ceilings, last_queries(samples)) if lag and lag.report else {},
        health=judgement.health if judgement else Health.UNKNOWN,
        problem=lag.problem if lag else "",
        incidents=update_incidents(snapshot.stream, before, found, snapshot.at),
        illegal=snapshot.state.illegal_count,
        counters={name: snapshot.counter(name) for name in snapshot.heartbeats},
    )


class Alerts:
    """Sends the alerts that recipients have not received yet.

    :param recipients: see `named`; every alert is also written to the log, as the recipient `log`.
    :param context: of the task, for the templates of notifiers.
    :param links: called only when there is something to send.
    """

    def __init__(
        self, recipients: Sequence[Any], context: Mapping[str, Any], links: Callable[[], Mapping[str, str]]
    ) -> None:
        self._recipients: dict[str, Any] = {"log": _write_to_log} | named(recipients)
        self._context = context
        self._links = links

    def send(
        self, stream: str, sample: LagSample, lag: LagLook | None, samples: Sequence[LagSample], limits: LagLimits
    ) -> LagSample:
        """Send what is due, and return the sample with what was delivered; the rest is sent at the next look."""
        failing: set[str] = set()
        for alert, names in pending_alerts(stream, sample.incidents, sample.at, self._recipients):
            full = self._completed(alert, lag, samples, limits)
            # A recipient that missed the end of an incident must not get the opening of the next one before it.
            delivered = deliver(full, {n: self._recipients[n] for n in names if n not in failing}, self._context)
            failing.update(set(names) - delivered)
            state = sample.incidents[alert.kind].acknowledge(
                Incident(alert.incident, alert.since), delivered, open=alert.open
            )
            sample = replace(sample, incidents={**sample.incidents, alert.kind: state})
        return sample

    def _completed(self, alert: Alert, lag: LagLook | None, samples: Sequence[LagSample], limits: LagLimits) -> Alert:
        links = self._links()
        if alert.kind != IncidentKind.LAG:
            return replace(alert, links=links)
        look = lag or LagLook(alert.at, None)
        incident = Incident(alert.incident, alert.since)
        return lag_alert(alert.stream, look, samples, limits, open=alert.open, incident=incident, links=links)


def _write_to_log(alert: Alert) -> None:
    log.warning("%s\n%s", alert.subject, alert.text)
