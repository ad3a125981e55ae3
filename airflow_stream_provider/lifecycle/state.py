"""The state of a stream by its control log. Plain values; only `fold` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.proof import Proof
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.lifecycle.wish import EndedJob, Wish


class IncarnationState(str, Enum):
    """The state of one driver."""

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
        return _INCARNATIONS[self]


_INCARNATIONS = {
    IncarnationState.STANDBY: "The driver is up and has rehearsed; its queries are not started.",
    IncarnationState.HOLDER: "The driver runs the stream's queries; no other driver may.",
    IncarnationState.INTERRUPTED: "Its queries stopped inside a batch; it must be fenced before another may acquire.",
    IncarnationState.FAILED: "Its queries or its rehearsal ended with an error.",
    IncarnationState.FINISHED: "Its queries ended by themselves.",
    IncarnationState.FENCED: "It is confirmed dead, by the cluster or by a person.",
    IncarnationState.RETIRED: "It is no longer needed; its driver exits.",
}


class RequestStage(str, Enum):
    """How far a request (a hand-over, an appointment or a stop) has come."""

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

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _STAGES[self]


_STAGES = {
    RequestStage.REQUESTED: "It is in the log; the appointed standby has not answered yet.",
    RequestStage.READY: "The appointed standby has answered; the holder finishes its batch and stops.",
    RequestStage.RELEASED: "The holder has stopped and released; nobody runs the queries.",
    RequestStage.DONE: "The appointed standby holds, or the stream has stopped as asked.",
    RequestStage.TAKEN_BACK: "The standby did not acquire in time; the old holder acquired again.",
    RequestStage.ABORTED: "It ended without a change of holder.",
}


class StreamPhase(str, Enum):
    """The state of the stream as a whole."""

    EMPTY = "empty"
    STOPPED = "stopped"
    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    HANDING_OVER = "handing_over"
    STOPPING = "stopping"
    FAILED = "failed"
    FINISHED = "finished"

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _PHASES[self]


_PHASES = {
    StreamPhase.EMPTY: "No driver has ever held the stream.",
    StreamPhase.STOPPED: "The stream was stopped on request; the watch leaves it alone.",
    StreamPhase.DOWN: "No driver holds the stream, and it is to run; the watch tells people and brings it back.",
    StreamPhase.STARTING: "No driver holds the stream; one is appointed to.",
    StreamPhase.RUNNING: "A driver holds the stream.",
    StreamPhase.HANDING_OVER: "A hand-over from the holder to a standby is open.",
    StreamPhase.STOPPING: "A request to stop is open.",
    StreamPhase.FAILED: "The last holder's queries failed; the watch brings the stream back.",
    StreamPhase.FINISHED: "The last holder's queries ended by themselves; the watch tells people, and leaves it alone.",
}


class DeploymentEnd(str, Enum):
    """How a deployment ended; its launcher then exits at once, without importing the script."""

    FAILED = "failed"
    FINISHED = "finished"
    RETIRED = "retired"


class HoldEnd(str, Enum):
    """How the last hold ended."""

    STOPPED = "stopped"  # on request, without a successor
    RELEASED = "released"  # to a standby, or on SIGTERM
    FAILED = "failed"
    FINISHED = "finished"
    FENCED = "fenced"


@dataclass(frozen=True)
class Incarnation:
    """One driver that announced itself.

    :param queries: what its `standby` record says of its queries.
    :param rehearsal: summary of its rehearsal.
    :param epoch: the last epoch in which it held the stream; 0 if it never did.
    :param reason: why it failed or was fenced; empty otherwise.
    :param announced: number of the record that named it first.
    :param fencing: why a fence has begun to kill it; empty while none has. The driver itself does not act on it.
    :param proof: what it, when its last hold ended, and the holders of its release before it have shown.
    """

    id: str
    deployment: str
    state: IncarnationState
    queries: tuple[Mapping[str, Any], ...] = ()
    rehearsal: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    reason: str = ""
    announced: int = 0
    fencing: str = ""
    proof: Proof = field(default_factory=Proof)


@dataclass(frozen=True)
class Deployment:
    """One attempt to run a release.

    :param declared: the record that declared it.
    :param submission: the cluster's id of its driver; empty until it is known.
    :param cluster: Airflow connection of the cluster that it was submitted to.
    :param ended: None while a driver of it may live.
    :param reason: why it ended, or why it was declared.
    :param ended_seq: number of the record that ended it; 0 while a driver of it may live.
    :param previous: the deployment that held the stream before this one first did, empty when none did; None while it
        never held.
    """

    id: str
    release: Release
    declared: Record
    policy: Policy = field(default_factory=Policy)
    submission: str = ""
    cluster: str = ""
    ended: DeploymentEnd | None = None
    reason: str = ""
    ended_seq: int = 0
    previous: str | None = None

    @property
    def adopts(self) -> bool:
        """Whether its driver is to follow a job without a stream: only until it has held, and not when run again."""
        return self.policy.adopts and self.previous is None and not self.declared.get("again")

    @property
    def rewind(self) -> WantedRewind | None:
        """From where its queries read Kafka records again when it holds first; None: they go on.

        :raises SpecError: what was declared is not that.
        """
        found = self.declared.get("rewind")
        return None if found is None else WantedRewind.from_json(found)

    @property
    def family(self) -> str:
        """The family of wishes that it serves; see `Wish.family`."""
        return self.declared.get("family") or ""

    def fulfils(self, wish: Wish) -> bool:
        """Whether a driver of it is what a wish asks to hold."""
        return bool(wish.family) and self.family == wish.family and (not wish.alone or self.declared.seq > wish.seq)

    @property
    def declared_at(self) -> float:
        """When it was declared, in seconds since 1970 by its author's clock."""
        return self.declared.at


@dataclass(frozen=True)
class Request:
    """A request for another holder, or for none.

    :param to: incarnation that shall hold; None asks for a stop.
    :param source: incarnation that held when the request was made; None when none did.
    :param expires: seconds since 1970 by the requester's clock.
    :param by: author of the `requested` record.
    :param ends: where the queries stopped, by query, from the `released` record; empty before it.
    :param wish: id of the wish that it serves.
    """

    id: str
    to: str | None
    source: str | None
    expires: float
    stage: RequestStage
    by: str
    reason: str = ""
    ends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    wish: str = ""


@dataclass(frozen=True)
class IllegalRecord:
    """A record in the log that broke a rule: it is carried, and changes nothing. `kind` is in printable ASCII."""

    seq: int
    kind: str
    rule: str


@dataclass(frozen=True)
class StreamState:
    """The state of one stream by its log. Deployments that ended long ago are left out: see `lifecycle/saved_state.py`.

    :param seq: number of the last record.
    :param nonce: of the last record.
    :param at: when the last record was written, in seconds since 1970 by its author's clock.
    :param epoch: grows by one with every change of holder.
    :param holder: incarnation that may run the queries now; None for none.
    :param last_holder: incarnation that holds now or held last.
    :param last_end: how the last hold ended; None while there is a holder or never was one.
    :param illegal: the last illegal records, oldest first; `illegal_count` says how many there are in all.
    :param ends: where the queries stopped, by query, when the last hold ended; empty when it is not known, as after a
        fence.
    :param held_from: number of the last `acquired` record of a driver that was asked to hold; not of one that took the
        stream back.
    :param held_to: number of the record that ended the last hold; 0 while somebody holds.
    :param rewinder: the first driver that holds, or held, of a deployment that reads records again; None once that
        one has let go of queries that it had started, or committed, as then it was done, or has failed and told why.
    :param stood: where the queries stood when it came to hold, by query; empty when it is not known.
    :param forgotten: ids of deployments and requests that were left out, oldest first; none of them can be used again.
    :param job: the job without a stream that is followed; None while somebody holds, or no job was ended.
    :param wish: what governs who holds; None: there is no wish yet.
    :param candidate: the release that is to stand by beside it; None: none is.
    :param wishes: the last wishes by id, oldest first.
    """

    seq: int = 0
    epoch: int = 0
    holder: str | None = None
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    incarnations: Mapping[str, Incarnation] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    last_holder: str | None = None
    last_end: HoldEnd | None = None
    nonce: str = ""
    at: float = 0.0
    illegal: tuple[IllegalRecord, ...] = ()
    illegal_count: int = 0
    forgotten: tuple[str, ...] = ()
    ends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    held_from: int = 0
    held_to: int = 0
    rewinder: str | None = None
    stood: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    job: EndedJob | None = None
    wish: Wish | None = None
    candidate: Wish | None = None
    wishes: Mapping[str, Wish] = field(default_factory=dict)

    @property
    def open_request(self) -> Request | None:
        """The one request that is under way, or None."""
        # Only the newest can be open: a new one is refused while another is.
        newest = next(reversed(self.requests.values()), None)
        return newest if newest and newest.stage.open else None

    @property
    def must_fence(self) -> tuple[str, ...]:
        """Incarnations that stopped inside a batch and are not yet confirmed dead (rule 6)."""
        return tuple(i.id for i in self.incarnations.values() if i.state is IncarnationState.INTERRUPTED)

    @property
    def held(self) -> list[Incarnation]:
        """Incarnations that hold or have held, the newest holder first."""
        return sorted((i for i in self.incarnations.values() if i.epoch), key=lambda i: -i.epoch)

    def may_write(self, incarnation: str) -> bool:
        """Whether something of an incarnation may still write: it holds, or it stopped inside a batch."""
        return incarnation == self.holder or incarnation in self.must_fence

    @property
    def holding_deployment(self) -> Deployment | None:
        """The deployment of the present holder, or None."""
        return self.deployments[self.incarnations[self.holder].deployment] if self.holder else None

    @property
    def last_driver(self) -> Incarnation | None:
        """The driver that holds now or held last; None when none ever did."""
        return self.incarnations.get(self.last_holder or "")

    @property
    def last_deployment(self) -> Deployment | None:
        """The deployment of that driver; None when none ever held."""
        return None if self.last_driver is None else self.deployments[self.last_driver.deployment]

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
        wish = self.wish
        if wish is None and not self.epoch:
            return StreamPhase.EMPTY
        if wish is not None and wish.goal.rest:
            return StreamPhase.STOPPED
        if wish is not None and wish.seq > self.held_to:
            return StreamPhase.DOWN
        if self.last_end is HoldEnd.FINISHED and (wish is None or self.has_run(wish.family)):
            return StreamPhase.FINISHED
        return StreamPhase.FAILED if self.last_end is HoldEnd.FAILED else StreamPhase.DOWN

    def is_current(self, wish: Wish) -> bool:
        """Whether a wish still counts: no wish for something else has followed."""
        if wish.goal.rest:
            return self.wish is not None and self.wish.goal.rest
        return any(each is not None and each.family == wish.family for each in (self.wish, self.candidate))

    def family(self, family: str) -> tuple[Deployment, ...]:
        """The deployments that serve the wishes of a family, oldest first."""
        return tuple(d for d in self.deployments.values() if family and d.family == family)

    def akin(self, deployment: str, other: str) -> bool:
        """Whether two deployments serve the same family of wishes."""
        first, second = (self.deployments.get(name) for name in (deployment, other))
        return first is not None and second is not None and first.family == second.family

    def has_run(self, family: str) -> bool:
        """Whether a driver that serves this family holds the stream, or ever held it."""
        return any(self.deployments[each.deployment].family == family for each in self.held)

    @property
    def resting(self) -> bool:
        """Whether no driver holds, and none is to: by a person's word, or as the script has ended by itself.

        A request that is open still, and serves an earlier wish, is aborted.
        """
        stopped = self.holder is None and self.wish is not None and self.wish.goal.rest
        return stopped or self.phase in (StreamPhase.EMPTY, StreamPhase.FINISHED)

    @property
    def follower(self) -> str:
        """The live deployment that is to follow a job without a stream, which may run still; empty: there is none.

        Until it has followed or is called off, no other driver may be given the checkpoints of that job.
        """
        if self.holder is not None:
            return ""  # that job's checkpoints are this stream's now
        # One from before somebody held follows nothing any more, whatever became of it.
        late = (each for each in reversed(list(self.deployments.values())) if each.declared.seq > self.held_to)
        return next((each.id for each in late if each.adopts and not each.ended), "")

    def standbys(self) -> tuple[Incarnation, ...]:
        """Incarnations that could take over now, oldest first."""
        return tuple(i for i in self.incarnations.values() if i.state is IncarnationState.STANDBY)

    def of_deployment(self, deployment: str) -> tuple[Incarnation, ...]:
        """The incarnations of a deployment, oldest first."""
        return tuple(i for i in self.incarnations.values() if i.deployment == deployment)

    def has_held(self, deployment: str) -> bool:
        """Whether a driver of this deployment holds the stream, or ever held it."""
        return any(driver.epoch for driver in self.of_deployment(deployment))
