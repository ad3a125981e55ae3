"""What a task can wait for. Pure: each goal looks at a snapshot and says whether the wait is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import DeploymentEnd, RequestStage
from airflow_stream_provider.planning.heartbeat_age import HeartbeatAges
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import SoakJudgement, SoakLimits, SoakResult, SoakSample, judge_soak, too_far
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome


@dataclass
class Observations:
    """What one observer has seen so far; gone with it, which is safe: it only makes the next one wait anew."""

    ages: HeartbeatAges = field(default_factory=HeartbeatAges)
    samples: list[SoakSample] = field(default_factory=list)
    over: bool = False  # at the last look the time was over


@dataclass(frozen=True)
class Needs:
    """What to look at beyond the log and the heartbeats: drivers on the cluster, and the lag."""

    drivers: tuple[str, ...] = ()
    lag: bool = False


@dataclass(frozen=True)
class Condition:
    """Base of all goals. `pace`: seconds between two looks. `says`: what is waited for, for the log and time-outs."""

    pace: ClassVar[float] = 2.0

    @property
    def description(self) -> str:
        """What is waited for, to follow on "waiting for"."""
        raise NotImplementedError

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Return what the next look must include, knowing the last one."""
        return Needs()

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return how the wait ended, or None to go on."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the goal as a trigger carries it."""
        return {"condition": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class StandbyUp(Condition):
    """The deployment is warm, or has ended in another way."""

    deployment: str

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"{self.deployment} to be up and rehearsed"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster too: a driver that dies before it says anything leaves no trace in the log."""
        return Needs(drivers=(self.deployment,))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED when there is something to decide, LOST when the driver is dead and said nothing."""
        deployment = snapshot.state.deployments[self.deployment]
        if deployment.ended or snapshot.candidate(self.deployment) or snapshot.holds(self.deployment):
            return WaitOutcome(Ended.REACHED, self.deployment)
        driver = snapshot.drivers.get(self.deployment)
        if driver is not None and driver.state.terminal:
            return WaitOutcome(Ended.LOST, self.deployment, f"its driver is gone ({driver.state.value})")
        return None


@dataclass(frozen=True)
class RequestOver(Condition):
    """A request is not open any more, or somebody it needs ended or gives no sign of life, or it has expired."""

    request: str
    expires: float
    watched: tuple[str, ...]
    lease: float

    pace: ClassVar[float] = 0.5
    # A heartbeat comes every second; a driver that beat so lately is still about to act.
    MOVING: ClassVar[float] = 5.0

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"request {self.request} to be over"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about drivers that have been silent for long."""
        if snapshot is None:
            return Needs()
        silent = (i for i in self.watched if seen.ages.seconds(snapshot, i) > self.lease / 2)
        return Needs(drivers=tuple(deployment_of(i) for i in silent))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED, SILENT with the driver's incarnation, or LOST when it has expired and all are alive."""
        request = snapshot.state.requests[self.request]
        if not request.stage.open or any(self._ended(snapshot, incarnation) for incarnation in self.watched):
            return WaitOutcome(Ended.REACHED, self.request)
        seconds = {i: seen.ages.seconds(snapshot, i) for i in self.watched}
        for incarnation, silent in seconds.items():
            if _lost(snapshot, incarnation, silent, self.lease):
                return WaitOutcome(Ended.SILENT, incarnation, f"no heartbeat for {silent:.0f} s")
        expired = snapshot.at > self.expires and request.stage is not RequestStage.RELEASED
        if expired and all(silent < self.MOVING for silent in seconds.values()):
            return WaitOutcome(Ended.LOST, self.request, "it was not acted upon in time")
        return None

    def _ended(self, snapshot: Snapshot, incarnation: str) -> bool:
        found = snapshot.state.incarnations.get(incarnation)
        return found is not None and found.state.terminal


@dataclass(frozen=True)
class Dead(Condition):
    """An incarnation is confirmed dead: the cluster says gone, and its heartbeat stood still for a lease (rule 4)."""

    incarnation: str
    lease: float

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"the cluster to confirm that {self.incarnation} is gone, and its heartbeat to stand still"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about its driver and executors."""
        return Needs(drivers=(deployment_of(self.incarnation),))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return DEAD, with the evidence, once both are true."""
        silent = seen.ages.seconds(snapshot, self.incarnation)
        driver = snapshot.drivers.get(deployment_of(self.incarnation))
        if driver is None or not driver.gone or silent < self.lease:
            return None
        evidence = {"driver": driver.state.value, "submission": driver.submission, "silent_seconds": round(silent, 1)}
        return WaitOutcome(Ended.DEAD, self.incarnation, "killed and confirmed gone", evidence)


@dataclass(frozen=True)
class DriversGone(Condition):
    """A deployment's driver and executors are gone; LOST when they are still there after the grace time."""

    deployment: str
    grace_until: float

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"the driver of {self.deployment} to exit"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about its driver and executors."""
        return Needs(drivers=(self.deployment,))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED, or LOST when the driver must be killed."""
        driver = snapshot.drivers.get(self.deployment)
        if driver is None or driver.gone:
            return WaitOutcome(Ended.REACHED, self.deployment)
        if snapshot.at > self.grace_until:
            return WaitOutcome(Ended.LOST, self.deployment, "it did not exit by itself")
        return None


@dataclass(frozen=True)
class Pause(Condition):
    """Some time has passed, or the deployment's driver shows itself: then look again whether it was submitted."""

    deployment: str
    until: float

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"the cluster to know whether {self.deployment} was submitted"

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED."""
        if snapshot.at >= self.until or snapshot.submission(self.deployment):
            return WaitOutcome(Ended.REACHED, self.deployment)
        return None


@dataclass(frozen=True)
class FirstCommits(Condition):
    """Every query of the new holder has committed a batch, or the time for it is over (nothing came in)."""

    incarnation: str
    queries: tuple[str, ...]
    until: float

    pace: ClassVar[float] = 0.5

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"the first batch of {self.incarnation}"

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED."""
        heartbeat = snapshot.heartbeats.get(self.incarnation)
        committed = {q.name for q in (heartbeat.queries if heartbeat else ()) if q.batch is not None}
        lost = snapshot.state.holder != self.incarnation
        if lost or snapshot.at >= self.until or committed.issuperset(self.queries):
            return WaitOutcome(Ended.REACHED, self.incarnation)
        return None


@dataclass(frozen=True)
class Soaked(Condition):
    """A new release has run for its soak time without giving cause for a roll-back; LOST says what the cause is.

    `run`: what the authors of the watching run begin with. Its own roll-back is no supersession: a watch that is
    cleared after it fails again.
    """

    deployment: str
    until: float
    limits: Mapping[str, Any]
    run: str

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"{self.deployment} to prove itself"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask for the lag where it is judged."""
        return Needs(lag=SoakLimits.from_json(self.limits).lag is not None)

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return LOST with the reason to roll back, REACHED when the time is over or somebody else took over."""
        limits = SoakLimits.from_json(self.limits)
        seen.samples.append(self._sample(snapshot, seen, limits))
        found: SoakJudgement = judge_soak(self.deployment, seen.samples, limits)
        evidence = {"lag_records": seen.samples[-1].lag_records, "samples": len(seen.samples)}
        if found.verdict is SoakResult.BAD:
            return WaitOutcome(Ended.LOST, self.deployment, found.reason, evidence)
        if found.verdict is SoakResult.SUPERSEDED:
            return WaitOutcome(Ended.REACHED, self.deployment, found.reason, evidence)
        # A driver that died at the end of the time must not pass by being silent for too short: it beats afterwards.
        was_over, seen.over = seen.over, snapshot.at >= self.until
        beats = was_over and seen.samples[-1].silent == 0.0
        measured = not self.needs(snapshot, seen).lag or len(seen.samples) >= limits.samples
        if beats and measured:
            return WaitOutcome(Ended.REACHED, self.deployment, "", evidence)
        return None

    def _sample(self, snapshot: Snapshot, seen: Observations, limits: SoakLimits) -> SoakSample:
        state = snapshot.state
        deployment = state.deployments[self.deployment]
        # A retired deployment was ended by a person or a roll-back: who holds instead says which.
        ended = "" if deployment.ended in (None, DeploymentEnd.RETIRED) else deployment.ended.value
        acquired = snapshot.acquisitions()
        asked = state.requests.get(acquired[-1]["request"]) if acquired else None
        wished = asked is not None and asked.stage is RequestStage.DONE and not asked.by.startswith(self.run)
        return SoakSample(
            holder=snapshot.holder or None,
            ended=ended,
            reason=deployment.reason,
            superseded=bool(snapshot.holder) and not snapshot.holds(self.deployment) and wished,
            silent=seen.ages.seconds(snapshot, state.holder) if state.holder else 0.0,
            lag_records=snapshot.lag.records if snapshot.lag else None,
            too_far=too_far(snapshot.lag, limits),
        )


@dataclass(frozen=True)
class SignsOfLife(Condition):
    """It is known of these drivers whether they live: the evidence says so, by incarnation.

    `counters`: of their heartbeats when the wait began.
    """

    counters: Mapping[str, int]
    lease: float

    SUBJECT: ClassVar[str] = "signs of life"

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"a sign of life of {', '.join(self.counters)}"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about drivers that have been silent for long."""
        if snapshot is None:
            return Needs()
        silent = (i for i in self.counters if seen.ages.seconds(snapshot, i) > self.lease / 2)
        return Needs(drivers=tuple(deployment_of(i) for i in silent))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED once it is known of all."""
        alive = {name: self._alive(snapshot, name, seen.ages.seconds(snapshot, name)) for name in self.counters}
        return None if None in alive.values() else WaitOutcome(Ended.REACHED, self.SUBJECT, evidence=alive)

    def _alive(self, snapshot: Snapshot, incarnation: str, silent: float) -> bool | None:
        if snapshot.counter(incarnation) > self.counters[incarnation]:
            return True
        return False if _lost(snapshot, incarnation, silent, self.lease) else None


@dataclass(frozen=True)
class InPhase(Condition):
    """The stream is in one of these phases; with `version`, held by that release."""

    phases: tuple[str, ...]
    version: str = ""

    @property
    def description(self) -> str:
        """What is waited for."""
        return f"the stream to be {' or '.join(self.phases)}" + (
            f" with release {self.version}" if self.version else ""
        )

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED."""
        held = snapshot.state.holding_deployment
        if snapshot.state.phase.value not in self.phases:
            return None
        if self.version and (held is None or held.release.version != self.version):
            return None
        return WaitOutcome(Ended.REACHED, snapshot.stream, snapshot.holder_sentence)


def _lost(snapshot: Snapshot, incarnation: str, silent: float, lease: float) -> bool:
    """Whether a driver that has been silent for so many seconds is to be taken for dead."""
    driver = snapshot.drivers.get(deployment_of(incarnation))
    # A driver that holds still while the control folder is away is alive: only the cluster's word shortens this.
    dead = driver is not None and driver.state.terminal
    return silent > (lease if dead else 2 * lease)


_ALL = (StandbyUp, RequestOver, Dead, DriversGone, Pause, FirstCommits, Soaked, SignsOfLife, InPhase)
_CONDITIONS: dict[str, Callable[..., Condition]] = {condition.__name__: condition for condition in _ALL}


def condition_from_json(data: Mapping[str, Any]) -> Condition:
    """Return the goal that a trigger carries; raise StreamError when it is not one of ours."""
    fields = dict(data)
    try:
        made = _CONDITIONS[fields.pop("condition")](
            **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        )
    except (KeyError, TypeError) as error:
        raise StreamError(
            f"{data!r} is not something to wait for.", next_step="Clear the task: it was deferred by another version."
        ) from error
    return made
