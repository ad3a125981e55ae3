"""Find the symptoms that one look at a stream shows, judged as the soak judges, and its sample. Pure."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits, LagLook
from airflow_stream_provider.lifecycle.heartbeat import QueryState
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.lifecycle.texts import count, duration
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom, update_incidents
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, last_queries, queries_of
from airflow_stream_provider.planning.due import needs
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import GiveUp
from airflow_stream_provider.planning.stream_health import (
    judge_lag,
    judge_queries,
    judge_run,
    silence_limit,
)

log = logging.getLogger(__name__)

# People are told of unknown lag and of failing commits only after this time: a broker that restarts, or a control
# folder that is away for a moment, needs no person.
TRANSIENT_SECONDS = 600.0

# So many illegal records are named.
ILLEGAL_SHOWN = 5
# For so long people are told that somebody writes to the control log past the rules, after the last such record.
ILLEGAL_SECONDS = 8 * 3600.0


def found_symptoms(
    snapshot: Snapshot, lag: LagJudgement | None, before: LagSample | None, for_at_least: float
) -> dict[IncidentKind, Symptom]:
    """Return what a look says of each kind of incident.

    :param lag: what `judge_lag` says; None = the stream names no Kafka.
    :param before: the sample of the last look; None: there was none.
    :param for_at_least: seconds for which the lag must be bad, or good: that of a healthy stream is a saw-tooth.
    """
    found = {
        IncidentKind.DOWN: _down(snapshot, before),
        IncidentKind.FINISHED: _finished(snapshot.state),
        IncidentKind.OFFSETS_GROUP: _offsets_group(snapshot),
        IncidentKind.QUERY: _queries(snapshot, before),
        IncidentKind.REWIND: _rewind(snapshot),
        IncidentKind.LOG: _log(snapshot, before),
    }
    if lag is None:
        return found
    if snapshot.state.resting:
        lag = LagJudgement(Health.PASS)
    unknown = lag.health is Health.UNKNOWN
    found[IncidentKind.LAG] = Symptom(lag.health, str(lag), for_at_least)
    found[IncidentKind.LAG_UNKNOWN] = Symptom(
        Health.FAIL if unknown else Health.PASS, f"Its lag is unknown. {lag}", TRANSIENT_SECONDS
    )
    return found


def _down(snapshot: Snapshot, before: LagSample | None) -> Symptom:
    holder = snapshot.state.holder or ""
    silent = silent_since(before, holder, snapshot.counter(holder)) if holder else None
    if silent is not None and snapshot.counter(holder) < 0:
        # It has never left a heartbeat, so earlier looks say nothing of the time before it held.
        silent = max([silent, *(record.at for record in snapshot.acquisitions()[-1:])])
    found = judge_run(snapshot, None if silent is None else snapshot.at - silent)
    return Symptom(found.health, found.reason)


def unmet(scene: Scene) -> Symptom:
    """Return whether what is wished for a stream that runs is not so, and only a person gets it there.

    Such as a hand-over that was given up after its task had died. A stream without a driver is `down`, which says why.
    """
    state = scene.state
    for wish in (state.candidate, state.wish):
        step = reconcile(scene, wish) if wish is not None and state.holder is not None else None
        if wish is not None and isinstance(step, GiveUp):
            says = f"{wish.author} has asked for what is not so. {step.error}"
            return Symptom(Health.FAIL, says, TRANSIENT_SECONDS)
    return Symptom(Health.PASS, for_at_least=TRANSIENT_SECONDS)


def _finished(state: StreamState) -> Symptom:
    last = state.last_deployment
    if state.phase is not StreamPhase.FINISHED or last is None:
        return Symptom(Health.PASS)
    return Symptom(
        Health.FAIL,
        f"The script of {last.id} (release {last.release.version}) has ended by itself, and nobody runs the stream. "
        "The watch leaves it alone: start it if it is to run on; stop it, and this is over, if that was its end.",
    )


def _queries(snapshot: Snapshot, before: LagSample | None) -> Symptom:
    found = judge_queries(snapshot, snapshot.at - before.at if before else 0.0)
    # People who know of one ill query are told again of the next one, and of one that is lost.
    told, lost = before.ill if before else {}, QueryState.LOST.value
    worse = any(name not in told or (now == lost != told[name]) for name, now in _ill(snapshot).items())
    return Symptom(found.health, str(found), worse=worse)


def _offsets_group(snapshot: Snapshot) -> Symptom:
    heartbeat = snapshot.holder_heartbeat
    problem = heartbeat.offsets_group.problem if heartbeat else ""
    return Symptom(Health.FAIL if problem else Health.PASS, problem, TRANSIENT_SECONDS)


def _rewind(snapshot: Snapshot) -> Symptom:
    heartbeat = snapshot.holder_heartbeat
    if heartbeat is None:
        return Symptom(Health.UNKNOWN)
    problem = heartbeat.left_undone
    return Symptom(Health.FAIL if problem else Health.PASS, problem)


def _log(snapshot: Snapshot, before: LagSample | None) -> Symptom:
    says, at = illegal_records(snapshot.state), _illegal_at(snapshot, before)
    if says and at is not None and snapshot.at - at < ILLEGAL_SECONDS:
        return Symptom(Health.FAIL, f"Somebody writes to its control log past the rules. {says}")
    return Symptom(Health.PASS)


def illegal_records(state: StreamState) -> str:
    """Return a sentence about the records that break a rule and are not obeyed; empty when there are none."""
    if not state.illegal_count:
        return ""
    named = ", ".join(f"{record.seq} ({record.kind}: {record.rule})" for record in state.illegal[-ILLEGAL_SHOWN:])
    return (
        f"{count(state.illegal_count, 'record')} of its control log break the rules and are ignored, the last ones: "
        f"{named}. Find out who wrote them."
    )


# Instead of `running`, for a stream whose holder has given no sign of life for two leases. Not a StreamPhase: the log
# does not know it.
SILENT = "silent"


@dataclass(frozen=True)
class SignOfLife:
    """The words for a stream: its phase, and how old the last heartbeat is.

    :param phase: of the stream, a StreamPhase or `silent`.
    :param silent_seconds: age of the last heartbeat of the holder, or of the last one that held; None: unknown.
    """

    phase: str
    silent_seconds: float | None = None


def sign_of_life(snapshot: Snapshot, last: LagSample | None) -> SignOfLife:
    """Return what to show of a stream.

    The age is the difference of two machines' clocks, held between what the looks of the watch have seen of the
    counter by one clock: so a driver whose clock is wrong is neither called silent nor alive for long.

    :param last: the newest sample of the stream's watch; None: there is none.
    """
    state, age = snapshot.state, snapshot.silent_seconds
    name = state.last_holder or ""
    if name in snapshot.heartbeats:
        counter = snapshot.counter(name)
        same, moved = silent_since(last, name, counter), moved_after(last, name, counter)
        at_least = 0.0 if same is None else snapshot.at - same
        at_most = age if moved is None else snapshot.at - moved
        if age is not None and at_most is not None:
            age = max(0.0, at_least, min(age, at_most))
        elif same is not None:
            age = max(0.0, at_least)
    phase = state.phase.value
    # A holder without a heartbeat has never given a sign of life.
    if state.phase is StreamPhase.RUNNING and (
        state.holder not in snapshot.heartbeats or judge_run(snapshot, age).health is Health.FAIL
    ):
        phase = SILENT
    return SignOfLife(phase, age)


def silent_since(last: LagSample | None, incarnation: str, counter: int) -> float | None:
    """Return the first look of those in a row up to the last one that saw this counter; None when the last did not.

    :param counter: -1 when there is no heartbeat that can be read, as `Snapshot.counter` says.
    """
    if last is None or last.counters.get(incarnation, -1) != counter:
        return None
    return last.since.get(incarnation, last.at if incarnation in last.counters else None)


def moved_after(last: LagSample | None, incarnation: str, counter: int) -> float | None:
    """Return the last look that saw a lower counter than this one; None when none did."""
    if last is None or incarnation not in last.counters:
        return None
    return last.at if last.counters[incarnation] < counter else last.moved.get(incarnation)


def phase_words(phase: str, silent_seconds: float | None) -> str:
    """Return a phase for people, with how long the driver has been silent if it has."""
    if phase != SILENT:
        return phase
    return "silent" if silent_seconds is None else f"silent for {duration(silent_seconds)}"


# Heartbeats come every second. One that is older, by the clocks of two machines, is read once more in the same look,
# so much later.
FRESH_SECONDS = 5.0
AGAIN_SECONDS = 3.0


def needed(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the incarnations whose life decides about recovery: the holder, or the standbys while no driver holds, and
    the drivers that an open request needs.
    """
    state, request = snapshot.state, snapshot.state.open_request
    names = {state.holder or "", *((request.to or "", request.source or "") if request else ())}
    if state.holder is None:
        names |= {i.id for i in state.standbys() if live_standby(state, i.id)}
    return tuple(sorted(name for name in names - {""} if not state.incarnations[name].state.terminal))


def doubtful(snapshot: Snapshot) -> tuple[str, ...]:
    """Return those of them whose last heartbeat is not of the last seconds."""
    return tuple(name for name in needed(snapshot) if not _fresh(snapshot, name))


def alive(
    snapshot: Snapshot,
    before: LagSample | None,
    again: Mapping[str, bool],
    drivers: Mapping[str, DriverState],
) -> dict[str, bool | None]:
    """Return what `planning.due.is_due` asks: True for a driver that lives, False for one that seems to be lost.

    A clock of another machine may be wrong: by it alone no driver that beats is taken for lost.

    :param before: the sample of the look before.
    :param again: by incarnation, whether its counter has grown between two reads of this look; without those that are
        not doubtful, and those whose second read did not answer.
    :param drivers: by deployment, the state of its driver as the cluster says.
    """
    found = {name: _alive(snapshot, name, before, again.get(name), drivers) for name in needed(snapshot)}
    return found | {name: False for name in needs(snapshot).drivers if name in drivers and _absent(drivers[name])}


def _absent(driver: DriverState) -> bool:
    """Whether the cluster shows no driver: it has ended, or was not sent, or was forgotten."""
    return driver.terminal or driver.reserved


def _fresh(snapshot: Snapshot, name: str) -> bool:
    beat = snapshot.heartbeats.get(name)
    return beat is not None and 0.0 <= snapshot.at - beat.at < FRESH_SECONDS


def _alive(
    snapshot: Snapshot,
    name: str,
    before: LagSample | None,
    again: bool | None,
    drivers: Mapping[str, DriverState],
) -> bool | None:
    beat, counter = snapshot.heartbeats.get(name), snapshot.counter(name)
    if again or _fresh(snapshot, name):
        return True
    driver = drivers.get(deployment_of(name))
    dead = driver is not None and _absent(driver)
    lease = snapshot.policy(deployment_of(name)).lease_seconds
    since = silent_since(before, name, counter)
    seen_silent = since is not None and snapshot.at - since >= silence_limit(lease)
    # The clocks tell something only of a counter that was seen to stand still.
    late = beat is not None and again is not None and snapshot.at - beat.at >= lease
    if beat is None or dead or seen_silent or late:
        return False
    return None


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
    beat = snapshot.holder_heartbeat
    running = beat.queries if beat else ()
    sizes = [query.state_bytes for query in running if query.state_bytes is not None]
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
        longest_batch_seconds=max((q.batch_seconds for q in running if q.batch_seconds is not None), default=None),
        all_state_bytes=sum(sizes) if sizes else None,
    )


def _ill(snapshot: Snapshot) -> dict[str, str]:
    return {query.name: query.health.state for query in judge_queries(snapshot).ill}


def _illegal_at(snapshot: Snapshot, before: LagSample | None) -> float | None:
    if snapshot.state.illegal_count > (before.illegal if before else 0):
        return snapshot.at
    return before.illegal_at if before else None


def _has_lost(query: QuerySample) -> bool:
    return bool(query.lost or query.lost_ever)
