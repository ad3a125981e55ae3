"""Find the symptoms that one look at a stream shows, judged as the soak judges. Pure."""

from __future__ import annotations

from airflow_stream_provider.lag.formatting import count
from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom
from airflow_stream_provider.planning.query_health import judge_queries
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import RESTING, judge_run

# People are told of unknown lag and of failing commits only after this time: a broker that restarts, or a control
# folder that is away for a moment, needs no person.
TRANSIENT_SECONDS = 600.0

# So many illegal records are named.
ILLEGAL_SHOWN = 5


def symptoms(
    snapshot: Snapshot,
    lag: LagJudgement | None,
    silent_since: float | None,
    for_at_least: float,
    illegal_before: int = 0,
    unseen_seconds: float = 0.0,
) -> dict[IncidentKind, Symptom]:
    """Return the symptoms of each kind of incident.

    :param lag: what `judge_lag` says; None = the stream names no Kafka.
    :param silent_since: time of the first look that saw the holder's heartbeat counter as it still is; None: no earlier
        look saw it.
    :param for_at_least: seconds for which the lag must be bad: the lag of a healthy stream is a saw-tooth.
    :param illegal_before: illegal records that the look of the oldest kept sample counted; default 0. They stay in the
        log for ever: people are told of new ones.
    :param unseen_seconds: since the look before.
    """
    found = {
        IncidentKind.DOWN: _down(snapshot, silent_since),
        IncidentKind.FINISHED: _finished(snapshot.state),
        IncidentKind.OFFSETS_GROUP: _offsets_group(snapshot),
        IncidentKind.QUERY: _queries(snapshot, unseen_seconds),
        IncidentKind.REWIND: _rewind(snapshot),
        IncidentKind.LOG: _log(snapshot.state, illegal_before),
    }
    if lag is None:
        return found
    if snapshot.state.phase in RESTING:
        lag = LagJudgement(Health.PASS)
    unknown = lag.health is Health.UNKNOWN
    found[IncidentKind.LAG] = Symptom(lag.health, str(lag), for_at_least)
    found[IncidentKind.LAG_UNKNOWN] = Symptom(
        Health.FAIL if unknown else Health.PASS, f"Its lag is unknown. {lag}", TRANSIENT_SECONDS
    )
    return found


def _down(snapshot: Snapshot, silent_since: float | None) -> Symptom:
    if silent_since is not None and snapshot.counter(snapshot.state.holder or "") < 0:
        # It has never left a heartbeat, so earlier looks say nothing of the time before it held.
        silent_since = max([silent_since, *(record.at for record in snapshot.acquisitions()[-1:])])
    found = judge_run(snapshot, None if silent_since is None else snapshot.at - silent_since)
    return Symptom(found.health, found.reason)


def _finished(state: StreamState) -> Symptom:
    last = state.last_deployment
    if state.phase is not StreamPhase.FINISHED or last is None:
        return Symptom(Health.PASS)
    return Symptom(
        Health.FAIL,
        f"The script of {last.id} (release {last.release.version}) has ended by itself, and nobody runs the stream. "
        "The watch leaves it alone: start it if it is to run on; stop it, and this is over, if that was its end.",
    )


def _queries(snapshot: Snapshot, unseen_seconds: float) -> Symptom:
    found = judge_queries(snapshot, unseen_seconds)
    return Symptom(found.health, str(found))


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


def _log(state: StreamState, before: int) -> Symptom:
    if state.illegal_count > before:
        return Symptom(Health.FAIL, f"Somebody writes to its control log past the rules. {illegal_records(state)}")
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
