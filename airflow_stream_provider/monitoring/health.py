"""What the watch says of one look at a stream. Pure; that of the lag is the judgement of sensors and soak, too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from airflow_stream_provider.lag.formatting import duration
from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.monitoring.incidents import Symptom
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.snapshot import Snapshot

# A broker that restarts, a control folder that is away: what mends itself within this is nobody's to be told.
MENDS_SECONDS = 600.0

# Nobody wants these to run.
RESTING = (StreamPhase.EMPTY, StreamPhase.STOPPED, StreamPhase.FINISHED)


def symptoms(
    snapshot: Snapshot, lag: LagJudgement | None, silent_since: float | None, for_at_least: float
) -> dict[str, Symptom]:
    """Return, by kind of trouble, what a look says of it.

    :param lag: how far behind it is; None = the stream names no Kafka.
    :param silent_since: when the holder's heartbeat was first seen as it still is; None: at no look before this one.
    :param for_at_least: seconds for which the lag must be too much: that of a healthy stream is a saw-tooth.
    """
    found = {"down": _runs(snapshot, silent_since), "offsets_group": _offsets_group(snapshot)}
    if lag is None:
        return found
    if snapshot.state.phase in RESTING:
        lag = LagJudgement(Health.PASS)  # nobody wants it to keep up
    unknown = lag.health is Health.UNKNOWN
    found["lag"] = Symptom(lag.health, str(lag), for_at_least)
    found["lag_unknown"] = Symptom(
        Health.FAIL if unknown else Health.PASS, f"How far it is behind is not known. {lag}", MENDS_SECONDS
    )
    return found


def silent_since(samples: Sequence[LagSample], incarnation: str, counter: int) -> float | None:
    """Return when the first of the last looks was that saw this counter of an incarnation's heartbeat."""
    same = itertools.takewhile(lambda sample: sample.counters.get(incarnation) == counter, reversed(samples))
    return min((sample.at for sample in same), default=None)


def _runs(snapshot: Snapshot, silent_since: float | None) -> Symptom:
    state = snapshot.state
    if state.must_fence:
        return Symptom(Health.FAIL, f"{state.must_fence[0]} stopped inside a batch and is not confirmed dead.")
    if state.holder is None:
        if state.phase in RESTING:
            return Symptom(Health.PASS)
        # A hand-over that hangs is ended when its request expires.
        if state.phase in (StreamPhase.STARTING, StreamPhase.HANDING_OVER):
            return Symptom(Health.UNKNOWN)
        last = state.deployments.get(deployment_of(state.last_holder or ""))
        why = f" {last.reason}" if last is not None and last.reason else ""
        return Symptom(Health.FAIL, f"Nobody runs it ({state.phase.value}).{why}")
    if silent_since is None:
        return Symptom(Health.PASS)
    silent = snapshot.at - silent_since
    lease = state.deployments[deployment_of(state.holder)].policy.lease_seconds
    if silent < 2 * lease:
        return Symptom(Health.UNKNOWN)
    return Symptom(Health.FAIL, f"Its driver {state.holder} has given no sign of life for {duration(silent)}.")


def _offsets_group(snapshot: Snapshot) -> Symptom:
    heartbeat = snapshot.heartbeats.get(snapshot.state.holder or "")
    problem = heartbeat.offsets_group.problem if heartbeat else ""
    return Symptom(Health.FAIL if problem else Health.PASS, problem, MENDS_SECONDS)
