"""What the control log says of a stream: plain values, made by `fold` and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.release import Release


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
    """The stream as a whole, as a person would say it. DOWN: nobody holds it, and nobody asked for that."""

    EMPTY = "empty"
    STOPPED = "stopped"
    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    HANDING_OVER = "handing_over"
    STOPPING = "stopping"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True)
class Incarnation:
    """One driver that announced itself: its id, deployment, state, and what it said of its queries and rehearsal.

    `epoch` is the last one in which it held the stream, 0 if it never did.
    """

    id: str
    deployment: str
    state: IncarnationState
    queries: tuple[Mapping[str, Any], ...] = ()
    rehearsal: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Deployment:
    """One attempt to run a release. `ended` is empty while it may live, else failed, finished or retired."""

    id: str
    release: Release
    declared_at: float
    policy: Policy = field(default_factory=Policy)
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
    """Everything the log says of one stream after record number `seq`.

    `last_holder` holds now or held last; `last_end` says how that ended: stopped (as asked for), released (handed over,
    or on SIGTERM), failed, finished, fenced; empty while there is a holder.
    """

    seq: int = 0
    epoch: int = 0
    holder: str | None = None
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    incarnations: Mapping[str, Incarnation] = field(default_factory=dict)
    requests: Mapping[str, Request] = field(default_factory=dict)
    last_holder: str | None = None
    last_end: str = ""

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
        if self.last_end in ("failed", "finished", "stopped"):
            return StreamPhase(self.last_end)
        return StreamPhase.DOWN if self.epoch else StreamPhase.EMPTY

    def standbys(self) -> tuple[Incarnation, ...]:
        """Incarnations that could take over now, oldest first."""
        return tuple(i for i in self.incarnations.values() if i.state is IncarnationState.STANDBY)

    def of_deployment(self, deployment: str) -> tuple[Incarnation, ...]:
        """The incarnations of a deployment, oldest first."""
        return tuple(i for i in self.incarnations.values() if i.deployment == deployment)
