"""What whoever watches a stream does next, so that some driver runs it again without a person: pure, never acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import live_standby, may_abort
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    DeploymentEnd,
    Request,
    RequestStage,
    StreamPhase,
    StreamState,
)


class RecoveryAction(StrEnum):
    """The one next act of the watch; every one of them may be repeated."""

    WAIT = "wait"
    FENCE = "fence"  # kill the driver, confirm that it is gone, append `fenced`
    ABORT = "abort"  # append `aborted` for the open request
    REQUEST = "request"  # append `requested` to this standby
    FAIL = "fail"  # append `failed` for a deployment that nothing is left of
    DECLARE = "declare"  # declare and submit a new deployment of this one's release


@dataclass(frozen=True)
class RecoveryStep:
    """What to do, to what (an incarnation, a request, or a deployment), and why, for a person."""

    need: RecoveryAction
    subject: str = ""
    why: str = ""


def recovery_step(state: StreamState, alive: Mapping[str, bool | None], now: float) -> RecoveryStep:
    """Return what brings a stream that lost its holder back, or brings a stuck request to an end.

    A stream that was stopped on request, has finished or was never started is left alone: those are a person's acts.
    Only a release that has run the stream before is appointed here; whether a new one may is the upgrade's to say.

    :param alive: by incarnation, and by deployment for one that has no live driver in the log: True when its
        heartbeat moves or the cluster says that it runs, False when it is gone or stood still for a lease, None (or
        not there) when that is not known now. Only False makes anything happen.
    :param now: seconds of the observer's wall clock, for what expires.
    """
    if state.must_fence:
        return RecoveryStep(
            RecoveryAction.FENCE, state.must_fence[0], "It stopped inside a batch and may still be writing."
        )
    if state.holder is not None and alive.get(state.holder) is False:
        return RecoveryStep(RecoveryAction.FENCE, state.holder, "It holds the stream and gives no sign of life.")
    request = state.open_request
    if request is not None:
        return _further(state, request, alive, now)
    if state.phase in (StreamPhase.DOWN, StreamPhase.FAILED):
        return _again(state, alive)
    return RecoveryStep(RecoveryAction.WAIT)


def coming_up(state: StreamState) -> list[Deployment]:
    """Return the deployments that have no live driver in the log yet, of releases that have run the stream before."""
    proven = _proven(state)
    return [
        deployment
        for deployment in state.deployments.values()
        if not deployment.ended
        and _hash(state, deployment.id) in proven
        and all(i.state.terminal for i in state.of_deployment(deployment.id))
    ]


def _further(state: StreamState, request: Request, alive: Mapping[str, bool | None], now: float) -> RecoveryStep:
    needed = request.to
    if request.stage is RequestStage.RELEASED and not live_standby(state, needed):
        needed = request.source
    if needed is not None and live_standby(state, needed) and alive.get(needed) is False:
        return RecoveryStep(RecoveryAction.FENCE, needed, "It shall take over and gives no sign of life.")
    if may_abort(state, Record(Kind.ABORTED, {"request": request.id}, at=now)):
        return RecoveryStep(RecoveryAction.ABORT, request.id, "It has expired, or nobody is left to take over.")
    return RecoveryStep(RecoveryAction.WAIT)


def _again(state: StreamState, alive: Mapping[str, bool | None]) -> RecoveryStep:
    """Nobody holds: the standby that held last, else what is coming up, else a new deployment."""
    proven = _proven(state)
    standbys = [i for i in state.standbys() if live_standby(state, i.id) and _hash(state, i.deployment) in proven]
    living = [i for i in standbys if alive.get(i.id)]
    if living:
        return RecoveryStep(
            RecoveryAction.REQUEST, max(living, key=lambda i: i.epoch).id, "It is warm, and its release has run before."
        )
    if any(alive.get(i.id) is None for i in standbys):
        return RecoveryStep(RecoveryAction.WAIT)
    for deployment in coming_up(state):
        if alive.get(deployment.id) is False:
            return RecoveryStep(RecoveryAction.FAIL, deployment.id, "Nothing of it is left on the cluster.")
        return RecoveryStep(RecoveryAction.WAIT)
    return RecoveryStep(
        RecoveryAction.DECLARE, _to_run_again(state), "No driver of a release that has run before is left."
    )


def _hash(state: StreamState, deployment: str) -> str:
    return state.deployments[deployment].release.hash


def _proven(state: StreamState) -> set[str]:
    return {_hash(state, i.deployment) for i in state.incarnations.values() if i.epoch}


def _to_run_again(state: StreamState) -> str:
    """The deployment that held last, but for those that failed: their release would fail again."""
    held = [i for i in state.incarnations.values() if i.epoch]
    sound = [i for i in held if state.deployments[i.deployment].ended is not DeploymentEnd.FAILED]
    return max(sound or held, key=lambda i: i.epoch).deployment
