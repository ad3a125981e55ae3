"""What the watch says of one look at a stream. Pure; that of the lag is the judgement of sensors and soak, too."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.model.limits import Health, Judgement
from airflow_stream_provider.model.names import deployment_of
from airflow_stream_provider.model.policy import Policy
from airflow_stream_provider.model.state import StreamPhase
from airflow_stream_provider.model.trouble import Finding
from airflow_stream_provider.model.words import duration

# A broker that restarts, a control folder that is away: what mends itself within this is nobody's to be told.
MENDS_SECONDS = 600.0

# Nobody wants these to run.
RESTING = (StreamPhase.EMPTY, StreamPhase.STOPPED, StreamPhase.FINISHED)


def findings(
    view: Snapshot, lag: Judgement | None, before: Mapping[str, int], before_at: float, for_at_least: float
) -> dict[str, Finding]:
    """Return, by kind of trouble, what a look says of it.

    :param lag: how far behind it is; None = the stream names no Kafka.
    :param before: counters of the heartbeats at the look before, which was at `before_at`.
    :param for_at_least: seconds for which the lag must be too much: that of a healthy stream is a saw-tooth.
    """
    found = {"down": _runs(view, before, before_at), "offsets_group": _offsets_group(view)}
    if lag is None:
        return found
    if view.state.phase in RESTING:
        lag = Judgement(Health.PASS)  # nobody wants it to keep up
    unknown = lag.health is Health.UNKNOWN
    found["lag"] = Finding(lag.health, str(lag), for_at_least)
    found["lag_unknown"] = Finding(
        Health.FAIL if unknown else Health.PASS, f"How far it is behind is not known. {lag}", MENDS_SECONDS
    )
    return found


def _runs(view: Snapshot, before: Mapping[str, int], before_at: float) -> Finding:
    state = view.state
    if state.must_fence:
        return Finding(Health.FAIL, f"{state.must_fence[0]} stopped inside a batch and is not confirmed dead.")
    if state.holder is None:
        if state.phase in RESTING:
            return Finding(Health.PASS)
        if state.phase is StreamPhase.STARTING:
            return Finding(Health.UNKNOWN)
        last = state.deployments.get(deployment_of(state.last_holder or ""))
        why = f" {last.reason}" if last is not None and last.reason else ""
        return Finding(Health.FAIL, f"Nobody runs it ({state.phase.value}).{why}")
    counter = view.counter(state.holder)
    if state.holder not in before or before[state.holder] != counter:
        return Finding(Health.PASS)
    silent = view.at - before_at
    lease = Policy.from_json(state.deployments[deployment_of(state.holder)].policy).lease_seconds
    if silent < 2 * lease:
        return Finding(Health.UNKNOWN)
    return Finding(Health.FAIL, f"Its driver {state.holder} has given no sign of life for {duration(silent)}.")


def _offsets_group(view: Snapshot) -> Finding:
    status = view.heartbeats.get(view.state.holder or "", {}).get("offsets_group", {})
    problem = str(status.get("problem", ""))
    return Finding(Health.FAIL if problem else Health.PASS, problem, MENDS_SECONDS)
