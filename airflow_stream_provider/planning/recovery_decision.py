"""Decide how a stream that lost its holder is brought back without a person. It decides only; `recover` acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import live_standby, may_abort
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    Incarnation,
    Request,
    RequestStage,
    StreamPhase,
    StreamState,
)
from airflow_stream_provider.planning.descent import unwanted, wanted_instead

# A driver of the last release that takes longer to come up leaves the stream to a warm one of another release.
COME_UP_SECONDS = 300.0


class RecoveryAction(StrEnum):
    """The next act of the watch. Each may be repeated without harm."""

    WAIT = "wait"
    FENCE = "fence"  # kill the driver, confirm that it is gone, append `fenced`
    ABORT = "abort"  # append `aborted` for the open request
    REQUEST = "request"  # append `requested` to this standby
    FAIL = "fail"  # append `failed` for a deployment that nothing is left of
    DECLARE = "declare"  # declare and submit a new deployment of this one's release


@dataclass(frozen=True)
class RecoveryStep:
    """What to do, to which incarnation, request or deployment, and why, for a person."""

    action: RecoveryAction
    subject: str = ""
    reason: str = ""


def recovery_step(
    state: StreamState,
    alive: Mapping[str, bool | None],
    now: float,
    *,
    free_since: float = 0.0,
) -> RecoveryStep:
    """Return what brings back a stream that lost its holder, or ends a request that nobody can fulfil.

    A stream that was stopped on request, has finished or was never started is left alone. Only a release that has run
    the stream before is appointed here; only an upgrade puts a new release in charge. It is the one that held last: an
    outage does not bring back an older release, which only follows one that never commits (`Proof.never`), or one that
    a roll-back has put aside.

    :param alive: by incarnation, and by deployment for one without a live driver in the log: True when its heartbeat
        moves or the cluster says that it runs; False when the cluster says that it is gone or its heartbeat stood
        still for a lease; None or missing when that is not known. Only False leads to a fence or a failure.
    :param now: seconds since 1970 by the observer's clock, for what expires.
    :param free_since: when the last hold ended; 0 when that is not known.
    """
    if state.must_fence:
        return RecoveryStep(
            RecoveryAction.FENCE, state.must_fence[0], "It stopped inside a batch and may still be writing."
        )
    if state.holder is not None and alive.get(state.holder) is False:
        return RecoveryStep(RecoveryAction.FENCE, state.holder, "It holds the stream and gives no sign of life.")
    request = state.open_request
    if request is not None:
        return _end_request(state, request, alive, now)
    if state.phase in (StreamPhase.DOWN, StreamPhase.FAILED):
        return _bring_back(state, alive, now, free_since)
    return RecoveryStep(RecoveryAction.WAIT)


def coming_up(state: StreamState) -> list[Deployment]:
    """Return the deployments of releases that ran before which have no live driver in the log yet.

    What a roll-back has put aside is not among them.
    """
    proven, aside = _proven(state), unwanted(state)
    return [
        deployment
        for deployment in state.deployments.values()
        if not deployment.ended
        and deployment.id not in aside
        and _hash(state, deployment.id) in proven
        and all(i.state.terminal for i in state.of_deployment(deployment.id))
    ]


def release_to_run(state: StreamState) -> str:
    """Return the hash of the release that a stream which nobody holds is brought back with; see `recovery_step`."""
    return _hash(state, _deployment_to_run_again(state))


def _end_request(state: StreamState, request: Request, alive: Mapping[str, bool | None], now: float) -> RecoveryStep:
    needed = request.to
    if request.stage is RequestStage.RELEASED and not live_standby(state, needed):
        needed = request.source
    if needed is not None and live_standby(state, needed) and alive.get(needed) is False:
        return RecoveryStep(RecoveryAction.FENCE, needed, "It was appointed to take over and gives no sign of life.")
    if may_abort(state, Record(Kind.ABORTED, {"request": request.id}, at=now)):
        return RecoveryStep(
            RecoveryAction.ABORT, request.id, "It has expired, or no driver is left that could take over."
        )
    return RecoveryStep(RecoveryAction.WAIT)


def _bring_back(state: StreamState, alive: Mapping[str, bool | None], now: float, free_since: float) -> RecoveryStep:
    """Nobody holds: appoint a standby of the release to run, else wait for what comes up, else declare it again."""
    last = _deployment_to_run_again(state)
    release = _hash(state, last)
    standbys = [i for i in state.standbys() if live_standby(state, i.id) and _hash(state, i.deployment) == release]
    living = [i for i in standbys if alive.get(i.id)]
    if living:
        return RecoveryStep(
            RecoveryAction.REQUEST, max(living, key=lambda i: i.epoch).id, "It stands by, and its release ran last."
        )
    if any(alive.get(i.id) is None for i in standbys):
        return RecoveryStep(RecoveryAction.WAIT)
    for deployment in coming_up(state):
        if alive.get(deployment.id) is False:
            return RecoveryStep(RecoveryAction.FAIL, deployment.id, "Nothing of it is left on the cluster.")
        if deployment.release.hash == release:
            # One that has held came up long ago: it is late only when it does not come up again.
            held = any(i.epoch for i in state.of_deployment(deployment.id))
            late = now > (free_since if held else deployment.declared_at) + COME_UP_SECONDS
            return (_stand_in(state, alive) if late else None) or RecoveryStep(RecoveryAction.WAIT)
    return RecoveryStep(RecoveryAction.DECLARE, last, "No driver of the release that ran last is left.")


def _stand_in(state: StreamState, alive: Mapping[str, bool | None]) -> RecoveryStep | None:
    """Appoint a living standby of another release that ran before: better than nobody, when there is no room."""
    proven, aside = _proven(state), unwanted(state)
    living = [
        i
        for i in state.standbys()
        if live_standby(state, i.id)
        and i.deployment not in aside
        and _hash(state, i.deployment) in proven
        and alive.get(i.id)
    ]
    if not living:
        return None
    why = "The release that ran last does not come up, and this one stands by and has run the stream before."
    return RecoveryStep(RecoveryAction.REQUEST, max(living, key=lambda i: i.epoch).id, why)


def _hash(state: StreamState, deployment: str) -> str:
    return state.deployments[deployment].release.hash


def _proven(state: StreamState) -> set[str]:
    return {_hash(state, i.deployment) for i in state.incarnations.values() if i.epoch}


def _deployment_to_run_again(state: StreamState) -> str:
    """Return the deployment that held last; instead of one of a release that never commits, that of an older one.

    What a roll-back has declared instead of it comes first: a watch that brought up the other would race with it.
    """
    chosen = wanted_instead(state)
    if chosen is not None:
        return chosen.id
    newest = {_hash(state, i.deployment): i for i in sorted(state.incarnations.values(), key=_epoch) if i.epoch}
    sound = [i for i in newest.values() if not i.proof.never]
    return max(sound or newest.values(), key=_epoch).deployment


def _epoch(incarnation: Incarnation) -> int:
    return incarnation.epoch
