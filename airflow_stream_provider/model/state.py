"""What the control log means: `state = fold(records)`, pure. Nothing else is ever stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_stream_provider.model.record import Boundary, Record


class IncarnationState(str, Enum):
    """Where one driver stands. `description` is what the documentation and the UI say about it."""

    STANDBY = "standby"
    HOLDER = "holder"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"
    FENCED = "fenced"
    RETIRED = "retired"

    @property
    def terminal(self) -> bool:
        """Whether this driver can never hold the stream again."""
        return self not in (IncarnationState.STANDBY, IncarnationState.HOLDER)

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    IncarnationState.STANDBY: "Up and warm, rehearsed; its queries are not started.",
    IncarnationState.HOLDER: "Runs the stream's queries; the only one that may.",
    IncarnationState.INTERRUPTED: "Released inside a batch; must be fenced before anybody acquires.",
    IncarnationState.FAILED: "Its queries or its rehearsal ended with an error.",
    IncarnationState.FINISHED: "Its queries ended by themselves.",
    IncarnationState.FENCED: "Confirmed dead, by the cluster or by a person.",
    IncarnationState.RETIRED: "Not needed any more; its driver exits.",
}


class RequestStage(str, Enum):
    """How far a hand-over, an appointment or a stop has come."""

    REQUESTED = "requested"
    READY = "ready"
    RELEASED = "released"
    DONE = "done"
    TAKEN_BACK = "taken_back"
    ABORTED = "aborted"

    @property
    def open(self) -> bool:
        """Whether the request can still go on."""
        return self in (RequestStage.REQUESTED, RequestStage.READY, RequestStage.RELEASED)


class StreamPhase(str, Enum):
    """The stream as a whole, as a person would say it."""

    EMPTY = "empty"
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    HANDING_OVER = "handing_over"
    STOPPING = "stopping"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True)
class Incarnation:
    """One driver that announced itself: its id, deployment, state, and what it said of its queries and rehearsal."""

    id: str
    deployment: str
    state: IncarnationState
    queries: tuple[Mapping[str, Any], ...] = ()
    rehearsal: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Deployment:
    """One attempt to run a release. `ended` is empty while it may live, else failed, finished or retired."""

    id: str
    release: Mapping[str, Any]
    declared_at: float
    policy: Mapping[str, Any] = field(default_factory=dict)
    submission: str = ""
    cluster: str = ""
    ended: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Request:
    """A wish for another holder (`to`) or for none (`to` is None), and how far it has come.

    `source` is who held when it was made; `expires` is in seconds of the requester's clock.
    """

    id: str
    to: str | None
    source: str | None
    expires: float
    stage: RequestStage
    by: str
    reason: str = ""


@dataclass(frozen=True)
class StreamState:
    """Everything the log says of one stream after record number `seq`."""

    seq: int = 0
    epoch: int = 0
    holder: str | None = None
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    incarnations: Mapping[str, Incarnation] = field(default_factory=dict)
    requests: Mapping[str, Request] = field(default_factory=dict)
    last_end: str = ""
    last_holder: str | None = None

    @property
    def open_request(self) -> Request | None:
        """The one request that is under way, or None."""
        # Only the newest can be open: a new one is refused while another is.
        newest = next(reversed(list(self.requests.values())), None)
        return newest if newest and newest.stage.open else None

    @property
    def must_fence(self) -> tuple[str, ...]:
        """Incarnations that stopped inside a batch and are not yet confirmed dead (rule 6)."""
        return tuple(i.id for i in self.incarnations.values() if i.state is IncarnationState.INTERRUPTED)

    @property
    def holding_deployment(self) -> Deployment | None:
        """The deployment of the present holder, or None."""
        return self.deployments[self.incarnations[self.holder].deployment] if self.holder else None

    @property
    def phase(self) -> StreamPhase:
        """The stream as a whole."""
        request = self.open_request
        if request:
            if request.to is None:
                return StreamPhase.STOPPING
            return StreamPhase.HANDING_OVER if request.source else StreamPhase.STARTING
        if self.holder:
            return StreamPhase.RUNNING
        if self.last_end in ("failed", "finished"):
            return StreamPhase(self.last_end)
        return StreamPhase.STOPPED if self.epoch else StreamPhase.EMPTY

    def standbys(self) -> tuple[Incarnation, ...]:
        """Incarnations that could take over now, oldest first."""
        return tuple(i for i in self.incarnations.values() if i.state is IncarnationState.STANDBY)

    def of_deployment(self, deployment: str) -> tuple[Incarnation, ...]:
        """The incarnations of a deployment, oldest first."""
        return tuple(i for i in self.incarnations.values() if i.deployment == deployment)


def fold(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
    """Return the state after these records, starting from `state` (default: an empty log)."""
    state = state or StreamState()
    for record in records:
        apply = _APPLY.get(record.kind)
        state = replace(apply(state, record) if apply else state, seq=record.seq)
    return state


def _incarnation(before: StreamState, name: str, **changes: Any) -> StreamState:
    changed = replace(before.incarnations[name], **changes)
    return replace(before, incarnations={**before.incarnations, name: changed})


def _deployment(before: StreamState, name: str, **changes: Any) -> StreamState:
    changed = replace(before.deployments[name], **changes)
    return replace(before, deployments={**before.deployments, name: changed})


def _request(state: StreamState, name: str, stage: RequestStage) -> StreamState:
    return replace(state, requests={**state.requests, name: replace(state.requests[name], stage=stage)})


def _free(state: StreamState, name: str, how: str) -> StreamState:
    return replace(state, holder=None, last_end=how) if state.holder == name else state


def _declared(state: StreamState, r: Record) -> StreamState:
    new = Deployment(
        id=r["deployment"],
        release=r["release"],
        declared_at=r.at,
        policy=r.get("policy", {}),
        reason=r.get("reason", ""),
    )
    return replace(state, deployments={**state.deployments, new.id: new})


def _submitted(state: StreamState, r: Record) -> StreamState:
    return _deployment(state, r["deployment"], submission=r["submission"], cluster=r.get("cluster", ""))


def _standby(state: StreamState, r: Record) -> StreamState:
    new = Incarnation(
        id=r["incarnation"],
        deployment=r["deployment"],
        state=IncarnationState.STANDBY,
        queries=tuple(r.get("queries", ())),
        rehearsal=r.get("rehearsal", {}),
    )
    return replace(state, incarnations={**state.incarnations, new.id: new})


def _requested(state: StreamState, r: Record) -> StreamState:
    new = Request(
        id=r["id"],
        to=r.get("to"),
        source=state.holder,
        expires=r["expires"],
        stage=RequestStage.REQUESTED,
        by=r.by,
        reason=r.get("reason", ""),
    )
    return replace(state, requests={**state.requests, new.id: new})


def _ready(state: StreamState, r: Record) -> StreamState:
    return _request(state, r["id"], RequestStage.READY)


def _released(state: StreamState, r: Record) -> StreamState:
    name = r["incarnation"]
    completed = r["boundary"] == Boundary.COMPLETED.value
    after = IncarnationState.STANDBY if completed else IncarnationState.INTERRUPTED
    state = _free(_incarnation(state, name, state=after), name, "released")
    if r.get("id") is None:
        return state
    return _request(state, r["id"], RequestStage.DONE if r.get("to") is None else RequestStage.RELEASED)


def _acquired(state: StreamState, r: Record) -> StreamState:
    request = state.requests[r["id"]]
    stage = RequestStage.DONE if request.to == r["incarnation"] else RequestStage.TAKEN_BACK
    state = _request(_incarnation(state, r["incarnation"], state=IncarnationState.HOLDER), r["id"], stage)
    return replace(state, holder=r["incarnation"], epoch=r["epoch"], last_end="", last_holder=r["incarnation"])


def _fenced(state: StreamState, r: Record) -> StreamState:
    state = _incarnation(state, r["incarnation"], state=IncarnationState.FENCED, reason=r["reason"])
    return _free(state, r["incarnation"], "fenced")


def _aborted(state: StreamState, r: Record) -> StreamState:
    return _request(state, r["id"], RequestStage.ABORTED)


def _failed(state: StreamState, r: Record) -> StreamState:
    name = r.get("incarnation")
    if name in state.incarnations:
        state = _incarnation(state, name, state=IncarnationState.FAILED, reason=r["reason"])
        state = _free(state, name, "failed")
    if state.holder and state.incarnations[state.holder].deployment == r["deployment"]:
        return state  # a relaunched twin failed beside the holder: the deployment lives on
    return _deployment(state, r["deployment"], ended="failed", reason=r["reason"])


def _finished(state: StreamState, r: Record) -> StreamState:
    name = r["incarnation"]
    state = _free(_incarnation(state, name, state=IncarnationState.FINISHED), name, "finished")
    return _deployment(state, state.incarnations[name].deployment, ended="finished")


def _retired(state: StreamState, r: Record) -> StreamState:
    for incarnation in state.of_deployment(r["deployment"]):
        if incarnation.state is IncarnationState.STANDBY:
            state = _incarnation(state, incarnation.id, state=IncarnationState.RETIRED)
    return _deployment(state, r["deployment"], ended="retired", reason=r.get("reason", ""))


_APPLY = {
    "declared": _declared,
    "submitted": _submitted,
    "standby": _standby,
    "requested": _requested,
    "ready": _ready,
    "released": _released,
    "acquired": _acquired,
    "fenced": _fenced,
    "aborted": _aborted,
    "failed": _failed,
    "finished": _finished,
    "retired": _retired,
}
