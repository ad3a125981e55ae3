"""What a task must have reached by the log when it says that it is done, whoever else did what meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import (
    DeploymentEnd,
    IncarnationState,
    Request,
    RequestStage,
    StreamState,
)
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.start import TRIES
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip, Step, TaskIdentity
from airflow_stream_provider.planning.waits import WaitOutcome

Plan = Callable[[Snapshot, TaskIdentity, WaitOutcome | None], Step]


@dataclass(frozen=True)
class Ended:
    """How a task ended: with which step, and what it had seen then."""

    step: Step
    by: str
    seen: Snapshot

    @property
    def state(self) -> StreamState:
        """The log that it had read."""
        return self.seen.state

    def requests(self, *, stop: bool) -> list[Request]:
        """Return what this task has asked for, oldest first."""
        return [r for r in self.state.requests.values() if r.by == self.by and (r.to is None) is stop]

    def asked(self, request: Request) -> int:
        """Return the number of the record that made a request."""
        kinds = (Kind.REQUESTED, Kind.STOPPED)
        return next((r.seq for r in self.seen.records if r.kind in kinds and r["request"] == request.id), 0)


@dataclass(frozen=True)
class Wish:
    """A plan, and whether what its task wants is so."""

    plan: Plan
    met: Callable[[Ended], bool]

    def __call__(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        return self.plan(snapshot, identity, outcome)


def stood_by(deployment: str) -> Callable[[Ended], bool]:
    """Done: the deployment is up, and the log has its submission, if anybody knows that."""

    def met(ended: Ended) -> bool:
        up = ended.seen.candidate(deployment) or ended.seen.holds(deployment)
        recorded = ended.seen.submission(deployment) == ended.state.deployments[deployment].submission
        return bool(up and recorded) or not isinstance(ended.step, Done)

    return met


def handed_over(deployment: str) -> Callable[[Ended], bool]:
    """Done: a request of this task is done, or the deployment holds."""

    def met(ended: Ended) -> bool:
        mine = (r for r in ended.requests(stop=False) if deployment_of(r.to or "") == deployment)
        reached = any(r.stage is RequestStage.DONE for r in mine) or _holding(ended.state) == deployment
        return reached or not isinstance(ended.step, Done)

    return met


def started(release: str) -> Callable[[Ended], bool]:
    """Done: the release holds, or this task has put it in charge and somebody has changed that since.

    It does not give up what was only lost before it held, while nobody has stopped the stream since.
    """

    def met(ended: Ended) -> bool:
        held = ended.state.holding_deployment
        if isinstance(ended.step, GiveUp):
            return held is not None or not _left_lying(ended)
        reached = any(r.stage is RequestStage.DONE for r in ended.requests(stop=False))
        return reached or (held is not None and held.release.version == release) or not isinstance(ended.step, Done)

    return met


def stopped(ended: Ended) -> bool:
    """Done: the stop is done, and all that was declared before has ended; or somebody has started the stream since."""
    if not isinstance(ended.step, Done):
        return True
    mine = ended.requests(stop=True)
    if not mine and ended.state.forgotten:
        return True  # it was so long ago that the log has been shortened since
    if not mine or mine[-1].stage is not RequestStage.DONE:
        return False
    requests = list(ended.state.requests.values())
    later = requests[requests.index(mine[-1]) + 1 :]
    if any(r.to is not None and r.stage is not RequestStage.ABORTED for r in later):
        return True
    asked = ended.asked(mine[-1])
    left = [d for d in ended.state.deployments.values() if d.declared.seq < asked and not d.ended]
    return not left and ended.state.holder is None


def rolled_back(bad: str) -> Callable[[Ended], bool]:
    """Done: the release does not hold, and nothing of it was warm when another was asked. Skip: as far as it could."""

    def met(ended: Ended) -> bool:
        state = ended.state
        bads = {bad}
        for each in state.deployments.values():
            if each.declared.get("again") in bads:
                bads.add(each.id)
        if isinstance(ended.step, Skip):
            found = state.deployments.get(bad)
            return not (_holding(state) in bads and found is not None and found.previous)
        if not isinstance(ended.step, Done):
            return True
        mine = [r for r in ended.requests(stop=False) if r.stage is RequestStage.DONE]
        if not mine:
            return _holding(state) not in bads
        asked, kept = ended.asked(mine[-1]), {deployment_of(mine[-1].source or ""), deployment_of(mine[-1].to or "")}
        return not any(_warm_before(state, name, asked) for name in bads - kept)

    return met


def retired(deployment: str) -> Callable[[Ended], bool]:
    """Done: the deployment has ended."""
    return lambda ended: not isinstance(ended.step, Done) or bool(ended.state.deployments[deployment].ended)


def _left_lying(ended: Ended) -> bool:
    mine = [d for d in ended.state.deployments.values() if d.declared.by == ended.by]
    if not mine or len(mine) >= TRIES:
        return False
    drivers = ended.state.of_deployment(mine[-1].id)
    lost = all(d.state is IncarnationState.FENCED and not d.epoch for d in drivers)
    stops = (r for r in ended.seen.records if r.kind in (Kind.REQUESTED, Kind.STOPPED) and r.get("to") is None)
    stopped_since = any(r.seq > mine[-1].declared.seq for r in stops)
    return lost and mine[-1].ended in (None, DeploymentEnd.FAILED) and not stopped_since and not _fenced_by_word(ended)


def _fenced_by_word(ended: Ended) -> bool:
    fences = (r.get("evidence") for r in ended.seen.records if r.kind == Kind.FENCED)
    return any(isinstance(evidence, dict) and "person" in evidence for evidence in fences)


def _holding(state: StreamState) -> str:
    return deployment_of(state.holder or "")


def _warm_before(state: StreamState, deployment: str, seq: int) -> bool:
    """Whether a deployment could be appointed then, or brought up, and still can."""
    found = state.deployments.get(deployment)
    if found is None or found.ended or found.declared.seq > seq:
        return False
    drivers = state.of_deployment(deployment)
    return not drivers or any(live_standby(state, i.id) and i.announced < seq for i in drivers)
