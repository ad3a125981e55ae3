"""Decide how a stream that lost its holder is brought back without a person. It decides only; `recover` acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import live_standby, may_abort
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    DeploymentEnd,
    Incarnation,
    Request,
    RequestStage,
    StreamPhase,
    StreamState,
)
from airflow_stream_provider.planning.begun import hindrance, left_to_its_run
from airflow_stream_provider.planning.descent import unwanted, wanted_instead

# A driver of the last release that takes longer to come up leaves the stream to a warm one of another release.
COME_UP_SECONDS = 300.0
# An older release that follows one which never commits is tried so often. If it does not come to hold, it is the turn
# of the later one, which may have failed by an outage, and so on, for a day after that one was declared.
TRIES = 3
OPEN_SECONDS = 86_400.0


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
    """The act, its incarnation, request or deployment, and the reason, for a person."""

    action: RecoveryAction
    subject: str = ""
    reason: str = ""


def recovery_step(
    state: StreamState,
    alive: Mapping[str, bool | None],
    now: float,
    *,
    free_since: float = 0.0,
    job_gone: bool = False,
) -> RecoveryStep:
    """Return the step that brings back a stream that lost its holder, or ends a request that no driver can fulfil.

    A stream that was stopped on request, has finished or was never started is left alone; one that was stopped for a
    start, for as long as that is under way. Only a release that has run the stream before is appointed here, or
    one that was to follow a job which is gone; only an upgrade puts a new release in charge. It is the one that held
    last: an outage does not bring back an older release, which only follows one that never commits (`Proof.never`), or
    one that a roll-back has put aside. If the older one does not come to hold, the two take turns.

    :param alive: by incarnation, and by deployment for one without a live driver in the log: True when its heartbeat
        moves or the cluster says that it runs; False when the cluster says that it is gone or its heartbeat stood
        still for a lease; None or missing when that is not known. Only False leads to a fence or a failure.
    :param now: seconds since 1970 by the observer's clock, for what expires.
    :param free_since: when the last hold ended; 0 when that is not known.
    :param job_gone: whether the cluster confirms now that the job is gone which is to be followed.
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
    if state.phase not in (StreamPhase.DOWN, StreamPhase.FAILED) or hindrance(state, gone=job_gone):
        return RecoveryStep(RecoveryAction.WAIT)
    if now < state.until:
        return RecoveryStep(RecoveryAction.WAIT)
    step = _bring_back(state, alive, now, free_since)
    waits = step.action is RecoveryAction.DECLARE and left_to_its_run(state, now)
    return RecoveryStep(RecoveryAction.WAIT) if waits else step


def coming_up(state: StreamState) -> list[Deployment]:
    """Return the deployments of releases that ran before which have no live driver in the log yet.

    A release that a roll-back has put aside is not among them.
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


def is_late(state: StreamState, deployment: Deployment, now: float, free_since: float) -> bool:
    """Return whether a deployment that comes up should have done so long ago; see `recovery_step` for `free_since`."""
    # One that has held came up long ago: it is late only when it does not come up again.
    return now > (free_since if state.has_held(deployment.id) else deployment.declared_at) + COME_UP_SECONDS


def release_to_run(state: StreamState, now: float) -> str:
    """Return the hash of the release that brings back a stream without a holder; see `recovery_step`."""
    return _hash(state, _choose(state, now).deployment)


def tried_instead(state: StreamState, now: float) -> str:
    """Return a sentence on the release that is tried in place of the other one, and why; empty unless there are two."""
    choice = _choose(state, now) if state.last_holder or state.job else None
    if choice is None or choice.instead_of is None:
        return ""
    tried, other = _named(state, choice.deployment), _named(state, choice.instead_of)
    return f"The watch tries {tried} in place of {other}, {choice.why}."


def _named(state: StreamState, deployment: str) -> str:
    found = state.deployments.get(deployment)
    return f"release {found.release.version} ({deployment})" if found else deployment


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
    """Without a holder: appoint a standby of the release to run, else wait for one that comes up, else declare it
    again.
    """
    last = _choose(state, now).deployment
    release, instead = _hash(state, last), tried_instead(state, now)
    standbys = [
        i
        for i in state.standbys()
        if live_standby(state, i.id) and _hash(state, i.deployment) == release and not _rewinds(state, i.deployment)
    ]
    living = [i for i in standbys if alive.get(i.id)]
    if living:
        ran = "the job that it follows is gone" if state.job else "its release ran last"
        why = f"It stands by. {instead}" if instead else f"It stands by, and {ran}."
        return RecoveryStep(RecoveryAction.REQUEST, max(living, key=_epoch).id, why)
    if any(alive.get(i.id) is None for i in standbys):
        return RecoveryStep(RecoveryAction.WAIT)
    for deployment in coming_up(state):
        if alive.get(deployment.id) is False:
            return RecoveryStep(RecoveryAction.FAIL, deployment.id, "Nothing of it is left on the cluster.")
        if deployment.release.hash == release and not _rewinds(state, deployment.id):
            late = is_late(state, deployment, now, free_since)
            return (_stand_in(state, alive) if late else None) or RecoveryStep(RecoveryAction.WAIT)
    left = f"No driver of the release that {'was to follow the job' if state.job else 'ran last'} is left."
    return RecoveryStep(RecoveryAction.DECLARE, last, instead or left)


def _rewinds(state: StreamState, deployment: str) -> bool:
    """Whether it is to read records again when it comes to hold: the upgrade that has declared it puts it in charge.

    A person may still have to approve that; and where the last holder was lost it would fail, since the batch after
    which it goes back is not known.
    """
    return state.deployments[deployment].declared.get("rewind") is not None and not state.has_held(deployment)


def _stand_in(state: StreamState, alive: Mapping[str, bool | None]) -> RecoveryStep | None:
    """Appoint a living standby of another release that ran before: better than no driver, when there is no room."""
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
    """Return the releases that have held, and that which is to follow a job: a person has asked for it."""
    followed = {_hash(state, state.job.deployment)} if state.job is not None else set()
    return followed | {_hash(state, i.deployment) for i in state.held}


class _Choice(NamedTuple):
    """The deployment whose release is to run, and that of the release in whose place; None: of the one that held last.

    `why` is said of the other one, for a person.
    """

    deployment: str
    instead_of: str | None = None
    why: str = ""


def _choose(state: StreamState, now: float) -> _Choice:
    """Choose the release that held last; instead of one that never commits, an older one, which is tried first.

    The deployment that a roll-back has declared instead of it comes first: a watch that brought up the other would race
    with it.
    """
    if state.job is not None:
        return _Choice(state.job.deployment)
    chosen = wanted_instead(state)
    if chosen is not None:
        return _Choice(chosen.id, chosen.declared["instead_of"], "which is rolled back")
    newest = {_hash(state, i.deployment): i for i in reversed(state.held)}
    sound = [i for i in newest.values() if not i.proof.never]
    first = max(sound or newest.values(), key=_epoch)
    later = max((i for i in newest.values() if i is not first and _is_open(state, i, now)), key=_epoch, default=None)
    if later is None:
        return _Choice(first.deployment)
    if _takes_turns(state, _hash(state, first.deployment), _hash(state, later.deployment)):
        return _Choice(later.deployment, first.deployment, f"which has not come up {TRIES} times in a row")
    return _Choice(first.deployment, later.deployment, "which has never committed a batch")


def _is_open(state: StreamState, holder: Incarnation, now: float) -> bool:
    """Whether a release that never commits may be tried again: it is of the last day, and was not retired."""
    deployment = state.deployments[holder.deployment]
    retired = deployment.ended is DeploymentEnd.RETIRED
    return holder.proof.never and not retired and deployment.declared_at > now - OPEN_SECONDS


def _takes_turns(state: StreamState, first: str, later: str) -> bool:
    """Whether it is the turn of the later release: as often as TRIES one after the other have not come to hold."""
    since = [d for d in state.deployments.values() if d.declared.seq > state.held_to and d.declared.get("again")]
    tries = [d.release.hash for d in since if d.ended and d.release.hash in (first, later)]
    if not tries:
        return False
    turn_over = tries[-TRIES:] == [tries[-1]] * TRIES
    return (tries[-1] == later) != turn_over


def _epoch(incarnation: Incarnation) -> int:
    return incarnation.epoch
