"""Decide what a driver does next: pure, so that the model checker runs the very code that the driver runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.rules import live_standby, may_acquire, may_release
from airflow_stream_provider.lifecycle.state import IncarnationState, RequestStage, StreamState


class Action(str, Enum):
    """The one next step of a driver's agent."""

    WAIT = "wait"
    ANNOUNCE = "announce"  # append `standby`
    ANSWER = "answer"  # append `ready`
    ACQUIRE = "acquire"  # append `acquired`
    START = "start"  # start the queries on the checkpoint
    RELEASE = "release"  # stop at the boundary, append `released`
    EXIT = "exit"  # leave with code 0
    HALT = "halt"  # leave at once with code 50: another may hold


@dataclass(frozen=True)
class DriverView:
    """The driver's knowledge of itself when it decides.

    `rehearsed`: its rehearsal is over and good. `running`: its queries are started (or starting). `peer_moved`: the
    appointed standby's heartbeat moved after its `ready`. `released_for`: seconds since its own release, by its
    monotonic clock, None if it released nothing. `terminating`: SIGTERM has come.
    """

    incarnation: str
    rehearsed: bool = False
    running: bool = False
    peer_moved: bool = False
    released_for: float | None = None
    terminating: bool = False


def decide(state: StreamState, me: DriverView, take_back_seconds: float = Policy.take_back_seconds) -> Action:
    """Return the next step of this driver in this state.

    A releaser waits `take_back_seconds`, by its own monotonic clock, for the new holder (rule 3), or until the log
    says that this one is lost.
    """
    if state.holder == me.incarnation:
        return _as_holder(state, me)
    found = state.incarnations.get(me.incarnation)
    if found is not None and found.state is IncarnationState.FINISHED:
        # The script ends by itself, and with it the process: with the script's exit code.
        return Action.EXIT if me.terminating else Action.WAIT
    if me.running:
        return Action.HALT  # fenced, or the log says that another took over: nothing here may write any more
    deployment = state.deployments.get(deployment_of(me.incarnation))
    if deployment is None or deployment.ended or me.terminating:
        return Action.EXIT
    if found is None:
        return Action.ANNOUNCE if me.rehearsed else Action.WAIT
    if found.state is not IncarnationState.STANDBY:
        return Action.HALT
    return _as_standby(state, me, take_back_seconds)


def _as_holder(state: StreamState, me: DriverView) -> Action:
    request = state.open_request
    asked = request is not None and may_release(state, me.incarnation, request.id)
    # Rule 3: `ready` in the log may be the last word of a driver that died since; its heartbeat is not.
    asked = asked and (request is None or request.to is None or me.peer_moved)
    if me.terminating or (asked and me.running):
        return Action.RELEASE
    return Action.WAIT if me.running else Action.START


def _as_standby(state: StreamState, me: DriverView, take_back_seconds: float) -> Action:
    request = state.open_request
    if request is None:
        return Action.WAIT
    if request.to == me.incarnation:
        if request.stage is RequestStage.REQUESTED:
            return Action.ANSWER
        return Action.ACQUIRE if may_acquire(state, me.incarnation) else Action.WAIT
    waited = me.released_for is not None and me.released_for >= take_back_seconds
    take_back = waited or not live_standby(state, request.to)
    return Action.ACQUIRE if take_back and may_acquire(state, me.incarnation) else Action.WAIT
