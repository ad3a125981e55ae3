"""The states of the protocol that the faults meet, read from the control log and the heartbeats."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lifecycle.heartbeat import DriverPhase, Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Deployment, RequestStage, StreamState

RUNNING = "running"
SUBMITTED = "submitted"
REHEARSING = "rehearsing"
READY = "ready"
REQUESTED = "requested"
RELEASED = "released"
ACQUIRED = "acquired"
DOWN = "down"

STATES: Mapping[str, str] = {
    RUNNING: "A driver holds the stream and commits; there is no standby.",
    SUBMITTED: "A driver comes up beside the holder.",
    REHEARSING: "A driver rehearses beside the holder.",
    READY: "A warm standby waits beside the holder.",
    REQUESTED: "A hand-over is asked for, and the holder has not released.",
    RELEASED: "The holder has released, and the standby has not acquired.",
    ACQUIRED: "The new holder has not committed yet.",
    DOWN: "Nobody holds the stream.",
}
"""Each state in the order of an upgrade, with a sentence for a person."""


def state_of(state: StreamState, heartbeats: Mapping[str, Heartbeat]) -> str:
    """Return the state of the protocol, one of `STATES`.

    Of several drivers beside the holder the newest counts: an old release that is kept warm does not hide a new one.

    :param heartbeats: by incarnation; a missing one says nothing.
    """
    request = state.open_request
    if request is not None and request.stage is RequestStage.RELEASED and request.to:
        return RELEASED
    if state.holder is None:
        return DOWN
    if request is not None and request.to:
        return REQUESTED
    if not _committed(heartbeats.get(state.holder)):
        return ACQUIRED
    beside = driver_beside(state)
    if beside is None:
        return RUNNING
    if any(live_standby(state, i.id) for i in state.of_deployment(beside.id)):
        return READY
    phases = {beat.phase for name, beat in heartbeats.items() if deployment_of(name) == beside.id}
    return REHEARSING if DriverPhase.REHEARSING.value in phases else SUBMITTED


def driver_beside(state: StreamState) -> Deployment | None:
    """Return the deployment that is asked to hold, else the newest that does not hold and has not ended, or None."""
    request = state.open_request
    if request is not None and request.to:
        return state.deployments.get(deployment_of(request.to))
    holding = state.holding_deployment
    beside = [d for d in state.deployments.values() if d is not holding and not d.ended and _may_live(state, d)]
    return beside[-1] if beside else None


def _may_live(state: StreamState, deployment: Deployment) -> bool:
    known = state.of_deployment(deployment.id)
    return not known or any(not each.state.terminal for each in known)


def _committed(beat: Heartbeat | None) -> bool:
    """Whether every query has committed since this driver acquired; without a heartbeat nobody knows of a commit."""
    return beat is not None and bool(beat.queries) and all(query.commits for query in beat.queries)
