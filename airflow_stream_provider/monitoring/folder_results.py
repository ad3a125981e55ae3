"""Leave what a look at a folder found: the next sample of each stream, and alerts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits, LagLook
from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.lifecycle.heartbeat import QueryState
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.alert import Alert, lag_alert
from airflow_stream_provider.monitoring.delivery import Told, tell
from airflow_stream_provider.monitoring.folder_reading import FolderReading, RootReads
from airflow_stream_provider.monitoring.health import moved_after, sign_of_life, silent_since, symptoms
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, Symptom, update_incidents
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, last_queries, queries_of
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_lag, judge_queries

log = logging.getLogger(__name__)

# For so long people are told that somebody writes to the control log past the rules, after the last such record.
ILLEGAL_SECONDS = 8 * 3600.0


def found_symptoms(
    snapshot: Snapshot, lag: LagLook | None, before: LagSample | None, limits: LagLimits, for_at_least: float
) -> dict[IncidentKind, Symptom]:
    """Return what a look says of each kind of incident.

    :param lag: None when the stream names no Kafka.
    :param before: the sample of the last look; None: there was none.
    :param for_at_least: seconds for which the lag must be bad, or good, before it counts.
    """
    holder = snapshot.state.holder
    silent = silent_since(before, holder, snapshot.counter(holder)) if holder else None
    at = _illegal_at(snapshot, before)
    news = at is not None and snapshot.at - at < ILLEGAL_SECONDS
    known = 0 if news else snapshot.state.illegal_count
    judgement = judge_lag(snapshot, lag.report, limits, lag.problem) if lag else None
    unseen = snapshot.at - before.at if before else 0.0
    found = symptoms(snapshot, judgement, silent, for_at_least, known, unseen)
    # People who know of one ill query are told again of the next one, and of one that is lost.
    told = before.ill if before else {}
    lost = QueryState.LOST.value
    worse = any(name not in told or (now == lost != told[name]) for name, now in _ill(snapshot).items())
    return found | {IncidentKind.QUERY: replace(found[IncidentKind.QUERY], worse=worse)}


def sample_of(
    snapshot: Snapshot,
    lag: LagLook | None,
    before: LagSample | None,
    limits: LagLimits,
    found: Mapping[IncidentKind, Symptom],
    explained: Collection[IncidentKind] = (),
) -> LagSample:
    """Return what a look found as the next sample.

    :param lag: None when the stream names no Kafka.
    :param before: the sample of the last look; None: there was none.
    :param found: see `found_symptoms`.
    :param explained: kinds whose reason is an incident of many streams: a failing symptom of such a kind neither opens
        nor closes an incident.
    """
    told = {
        kind: Symptom(Health.UNKNOWN) if kind in explained and symptom.health is Health.FAIL else symptom
        for kind, symptom in found.items()
    }
    for kind, symptom in told.items():
        if symptom.health is Health.FAIL:
            log.warning("%s: %s: %s", snapshot.stream, kind.value, symptom.description)
    held = snapshot.state.holding_deployment
    sign = sign_of_life(snapshot, before)
    known = last_queries([before] if before else [])
    queries = queries_of(lag.report, limits.ceilings, known) if lag and lag.report else {}
    counters = {name: snapshot.counter(name) for name in snapshot.heartbeats}
    # A holder that has never beaten is silent, too.
    watched = {*counters, *([snapshot.state.holder] if snapshot.state.holder else [])}
    since = {name: silent_since(before, name, snapshot.counter(name)) for name in sorted(watched)}
    moved = {name: moved_after(before, name, counter) for name, counter in counters.items()}
    return LagSample(
        at=snapshot.at,
        phase=sign.phase,
        silent_seconds=sign.silent_seconds,
        version=held.release.version if held else "",
        queries=queries,
        earlier={name: each for name, each in known.items() if name not in queries and _has_lost(each)},
        health=judge_lag(snapshot, lag.report, limits, lag.problem).health if lag else Health.UNKNOWN,
        problem=lag.problem if lag else "",
        incidents=update_incidents(snapshot.stream, before.incidents if before else {}, told, snapshot.at),
        illegal=snapshot.state.illegal_count,
        illegal_at=_illegal_at(snapshot, before),
        # A query that is not known now keeps its state: people are not told of it again.
        ill=_ill(snapshot) or (before.ill if before and judge_queries(snapshot).health is Health.UNKNOWN else {}),
        counters=counters,
        since={name: snapshot.at if at is None else at for name, at in since.items()},
        moved={name: at for name, at in moved.items() if at is not None},
    )


def _ill(snapshot: Snapshot) -> dict[str, str]:
    return {query.name: query.health.state for query in judge_queries(snapshot).ill}


def _illegal_at(snapshot: Snapshot, before: LagSample | None) -> float | None:
    if snapshot.state.illegal_count > (before.illegal if before else 0):
        return snapshot.at
    return before.illegal_at if before else None


def _has_lost(query: QuerySample) -> bool:
    return bool(query.lost or query.lost_ever)


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
                    log.error("The list of those told of %s cannot be kept; they are told again: %s", name, says(error))

        self._reading.in_roots(write)
