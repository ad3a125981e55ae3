"""The conditions on a stream that a task can wait for: each decides from a snapshot. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.planning.hanging import needs_to_tell
from airflow_stream_provider.planning.signs_of_life import Dead, DriversGone, JobGone, SignsOfLife, lost
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import (
    SoakLimits,
    SoakResult,
    ill_queries,
    judge_soak,
    lag_known,
    soak_look,
    stopped,
)
from airflow_stream_provider.planning.waits import Condition, Ended, Needs, Observations, WaitOutcome


@dataclass(frozen=True)
class StandbyUp(Condition):
    """The deployment stands by, or has ended; or its driver runs or is queued, and has not said anything for a while.

    A driver that runs may not reach the control log, and wait for it for minutes: its own log tells. The cluster may
    know why one is queued, such as an image that cannot be pulled.
    """

    deployment: str

    # A driver's first heartbeat comes before its script begins.
    MUTE_SECONDS: ClassVar[float] = 60.0
    WAITS_FOR: ClassVar[str] = "{deployment} to be up and rehearsed"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster too: a driver that dies before it says anything leaves no trace in the log."""
        return Needs(drivers=(self.deployment,))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED when it stands by, holds or has ended; GONE when its driver is dead and wrote no record.

        UNSENT when its id is only reserved: the task that was to send it may be dead. EXPIRED when it is mute: wait
        again.
        """
        deployment = snapshot.state.deployments[self.deployment]
        if deployment.ended:
            why = f"it has ended ({deployment.ended.value}): {snapshot.why_ended(self.deployment)}".rstrip(": ")
            return WaitOutcome(Ended.REACHED, self.deployment, why)
        if snapshot.candidate(self.deployment) or snapshot.holds(self.deployment):
            return WaitOutcome(Ended.REACHED, self.deployment)
        driver = snapshot.drivers.get(self.deployment)
        if driver is not None and driver.state.terminal:
            return WaitOutcome(Ended.GONE, self.deployment, f"its driver is gone ({driver.state.value})")
        if driver is not None and driver.state.reserved:
            return WaitOutcome(Ended.UNSENT, self.deployment, "its id is reserved, and the cluster has no driver of it")
        said = any(deployment_of(name) == self.deployment for name in snapshot.heartbeats)
        if said or driver is None or driver.state not in (DriverState.RUNNING, DriverState.QUEUED):
            seen.mute = None
            return None
        if seen.mute is None or seen.mute[0] is not driver.state:
            seen.mute = (driver.state, snapshot.at)
        if snapshot.at < seen.mute[1] + self.MUTE_SECONDS:
            return None
        return WaitOutcome(Ended.EXPIRED, self.deployment, "its driver has not said anything yet")


@dataclass(frozen=True)
class RequestOver(Condition):
    """A request is closed or has expired, or a driver that it needs has ended or is silent.

    :param expires: seconds since 1970.
    :param watched: incarnations of the drivers that it needs.
    :param lease: seconds.
    """

    request: str
    expires: float
    watched: tuple[str, ...]
    lease: float

    pace: ClassVar[float] = 0.5
    soon: ClassVar[float] = 5.0
    # Heartbeats come every second: a driver whose last one is at most this old may be about to act.
    MOVING: ClassVar[float] = 5.0

    WAITS_FOR: ClassVar[str] = "request {request} to be over"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about drivers that have been silent for half a lease."""
        return Needs() if snapshot is None else Needs(drivers=seen.silent(snapshot, self.watched, self.lease))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED when it is closed, SILENT for a silent driver, EXPIRED though all are alive."""
        request = snapshot.state.requests[self.request]
        ended = [incarnation for incarnation in self.watched if self._ended(snapshot, incarnation)]
        if not request.stage.open or ended:
            return WaitOutcome(Ended.REACHED, self.request, f"{ended[0]} has ended" if request.stage.open else "")
        seconds = {i: seen.ages.seconds(snapshot, i) for i in self.watched}
        for incarnation, silent in seconds.items():
            if lost(snapshot, incarnation, silent, self.lease):
                still = {incarnation: snapshot.counter(incarnation)}
                return WaitOutcome(Ended.SILENT, incarnation, f"no heartbeat for {silent:.0f} s", counters=still)
        expired = snapshot.at > self.expires and request.stage is not RequestStage.RELEASED
        if expired and all(silent < self.MOVING for silent in seconds.values()):
            return WaitOutcome(Ended.EXPIRED, self.request, "it was not acted upon in time")
        return None

    def _ended(self, snapshot: Snapshot, incarnation: str) -> bool:
        found = snapshot.state.incarnations.get(incarnation)
        return found is not None and found.state.terminal


@dataclass(frozen=True)
class Pause(Condition):
    """Some time has passed, or the driver of a deployment was seen: then its submission is looked for again."""

    deployment: str
    until: float

    WAITS_FOR: ClassVar[str] = "the cluster to know whether {deployment} was submitted"

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED when the time is over, or its driver has given a sign of life."""
        if snapshot.at >= self.until or any(deployment_of(name) == self.deployment for name in snapshot.heartbeats):
            return WaitOutcome(Ended.REACHED, self.deployment)
        return None


@dataclass(frozen=True)
class NextTry(Condition):
    """The pause before the release of a deployment that was lost is started again is over."""

    deployment: str
    until: float

    WAITS_FOR: ClassVar[str] = "the pause before the release of {deployment} is started again"

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED when the time is over."""
        return WaitOutcome(Ended.REACHED, self.deployment) if snapshot.at >= self.until else None


@dataclass(frozen=True)
class FirstCommits(Condition):
    """Every query of a new holder has committed a batch, or the time is over because no records came in."""

    incarnation: str
    queries: tuple[str, ...]
    until: float

    pace: ClassVar[float] = 0.5
    soon: ClassVar[float] = 5.0

    WAITS_FOR: ClassVar[str] = "the first batch of {incarnation}"

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED, also when another driver holds by now."""
        heartbeat = snapshot.heartbeats.get(self.incarnation)
        committed = {q.name for q in (heartbeat.queries if heartbeat else ()) if q.commits}
        lost = snapshot.state.holder != self.incarnation
        if lost or snapshot.at >= self.until or committed.issuperset(self.queries):
            return WaitOutcome(Ended.REACHED, self.incarnation)
        return None


@dataclass(frozen=True)
class Soaked(Condition):
    """A new release has run for its soak time without a reason to roll back, and nothing is undecided.

    Where the limits judge the lag, it must have been known in several looks.

    :param until: end of the soak, seconds since 1970.
    :param limits: SoakLimits as JSON.
    :param run: prefix of the authors of the soak's DAG run. A roll-back by the same run does not supersede the release:
        a soak that is cleared afterwards fails again.
    """

    deployment: str
    until: float
    limits: Mapping[str, Any]
    run: str

    WAITS_FOR: ClassVar[str] = "{deployment} to prove itself"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask for the lag if the limits judge it."""
        limits = SoakLimits.from_json(self.limits).lag
        if limits is None or snapshot is None:
            return Needs(lag=None if limits is None else limits.moments)
        return Needs(lag=limits.moments | needs_to_tell(snapshot, limits))

    @override
    def problem(self, look: Snapshot) -> str:
        limits = SoakLimits.from_json(self.limits)
        if limits.lag is None or lag_known(look, limits):
            return stopped(look, limits) or ill_queries(look, limits)[1]
        return "The lag is not known: Kafka, or how far the stream is, cannot be read; the triggerer's log says why."

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return BAD with the reason to roll back, REACHED when the time is over or somebody else took over."""
        limits = SoakLimits.from_json(self.limits)
        holder = snapshot.state.holder
        silent = seen.ages.seconds(snapshot, holder) if holder else 0.0
        seen.samples.append(soak_look(snapshot, self.deployment, self.run, silent, limits))
        found = judge_soak(self.deployment, seen.samples, limits)
        known = (look.lag_records for look in seen.samples if look.lag_records is not None)
        evidence = {
            "lag_records": seen.samples[-1].lag_records,
            "lag_records_first": next(known, None),
            "samples": len(seen.samples),
        }
        if found.result is SoakResult.BAD:
            return WaitOutcome(Ended.BAD, self.deployment, found.reason, evidence)
        if found.result is SoakResult.SUPERSEDED:
            return WaitOutcome(Ended.REACHED, self.deployment, found.reason, evidence)
        # A driver that died just before the end has not been silent for long enough to be bad: wait for one more
        # heartbeat.
        was_over, seen.over = seen.over, snapshot.at >= self.until
        beats = was_over and seen.samples[-1].run.health is Health.PASS
        if found.result is SoakResult.UNDECIDED:
            return None  # also at the end of the soak, which lasts longer then
        measured = limits.lag is None or sum(look.lag_known for look in seen.samples) >= limits.samples
        if beats and measured:
            return WaitOutcome(Ended.REACHED, self.deployment, "", evidence)
        return None


@dataclass(frozen=True)
class InPhase(Condition):
    """The stream is in one of these phases and, if `version` is given, held by that release."""

    phases: tuple[str, ...]
    version: str = ""

    @property
    @override
    def description(self) -> str:
        return f"the stream to be {' or '.join(self.phases)}" + (
            f" with release {self.version}" if self.version else ""
        )

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED, with the holder of the stream."""
        held = snapshot.state.holding_deployment
        if snapshot.state.phase.value not in self.phases:
            return None
        if self.version and (held is None or held.release.version != self.version):
            return None
        return WaitOutcome(Ended.REACHED, snapshot.stream, snapshot.holder_sentence)


# The conditions that a trigger may carry.
CONDITIONS: tuple[type[Condition], ...] = (
    StandbyUp,
    RequestOver,
    Dead,
    DriversGone,
    JobGone,
    Pause,
    NextTry,
    FirstCommits,
    Soaked,
    SignsOfLife,
    InPhase,
)
