"""Signs of drivers' lives, and the waits for their ends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import silence_limit
from airflow_stream_provider.planning.waits import Condition, Ended, Needs, Observations, WaitOutcome


@dataclass(frozen=True)
class SignsOfLife(Condition):
    """It is known whether each of these drivers is alive: the evidence tells by incarnation.

    :param counters: of their heartbeats when the wait began, by incarnation.
    :param lease: seconds.
    """

    counters: Mapping[str, int]
    lease: float

    SUBJECT: ClassVar[str] = "signs of life"
    # Living drivers beat every second.
    soon: ClassVar[float] = 2.5

    @property
    @override
    def description(self) -> str:
        return f"a sign of life of {', '.join(self.counters)}"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about drivers that have been silent for half a lease."""
        return Needs() if snapshot is None else Needs(drivers=seen.silent(snapshot, self.counters, self.lease))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED once it is known for all."""
        alive = {name: self._alive(snapshot, name, seen.ages.seconds(snapshot, name)) for name in self.counters}
        if None in alive.values():
            return None
        still = {name: snapshot.counter(name) for name, lives in alive.items() if not lives}
        return WaitOutcome(Ended.REACHED, self.SUBJECT, evidence=alive, counters=still)

    @classmethod
    def found(cls, outcome: WaitOutcome | None, snapshot: Snapshot) -> dict[str, bool]:
        """Return the findings of such a wait, by incarnation; a driver that has beaten since it ended is alive."""
        if outcome is None or not outcome.about(Ended.REACHED, cls.SUBJECT):
            return {}
        return {
            name: bool(lives) or outcome.outdated(name, snapshot.counter(name))
            for name, lives in outcome.evidence.items()
        }

    def _alive(self, snapshot: Snapshot, incarnation: str, silent: float) -> bool | None:
        # One that has beaten while another was waited for may have died since.
        if snapshot.counter(incarnation) > self.counters[incarnation] and silent <= self.lease / 2:
            return True
        return False if lost(snapshot, incarnation, silent, self.lease) else None


def lost(snapshot: Snapshot, incarnation: str, silent: float, lease: float) -> bool:
    """Return whether a driver that has been silent for so many seconds counts as lost."""
    driver = snapshot.drivers.get(deployment_of(incarnation))
    # A driver that pauses while the control folder is away is alive: only the cluster's word shortens this time.
    dead = driver is not None and driver.state.terminal
    return silent > (lease if dead else silence_limit(lease))


# In the evidence about a driver on a lost machine: whether it could write when it was found dead.
MAY_WRITE = "may_write"
# There: that only the ledger of its sinks keeps it from writing.
BY_LEDGER = "ledger"


@dataclass(frozen=True)
class Dead(Condition):
    """An incarnation is confirmed dead: the cluster says that its driver and executors are gone, and its heartbeat has
    stood still for a lease. The cluster cannot say so of a machine that it has lost. There a driver that may write must
    have been still for a lease and a pause, after which it has halted, and another lease, in which its executors notice
    (Spark's CoarseGrainedExecutorBackend exits when it loses its driver). One that may not write is not waited for:
    before it could, it would read in the log that it was fenced. Nor is one that the ledger of its sinks can refuse.

    The wait is over, too, when it has ended by the log, and when something of its deployment has been in sight for two
    leases: the kill did not arrive, as on a machine that was away, or another driver has come up since.

    :param lease: seconds.
    :param pause: seconds for which the driver may outlive its lease with paused queries (`Policy.pause_seconds`).
    :param ledger: whether the ledger of its sinks can refuse all that it may still write.
    """

    incarnation: str
    lease: float
    pause: float = Policy.pause_seconds
    ledger: bool = False

    WAITS_FOR: ClassVar[str] = "the cluster to confirm that {incarnation} is gone, and its heartbeat to stand still"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about its driver and executors."""
        return Needs(drivers=(deployment_of(self.incarnation),))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return DEAD, with the evidence; REACHED when it has ended by the log; EXPIRED to kill it again."""
        found = snapshot.state.incarnations.get(self.incarnation)
        if found is not None and found.state.terminal and self.incarnation not in snapshot.state.must_fence:
            return WaitOutcome(Ended.REACHED, self.incarnation, "it has ended by the log")
        silent = seen.ages.seconds(snapshot, self.incarnation)
        driver = snapshot.drivers.get(deployment_of(self.incarnation))
        if driver is None:
            return None
        if not driver.out_of_sight:
            # A cluster that does not answer cannot be asked to kill, either.
            if driver.state.known:
                seen.in_sight = snapshot.at if seen.in_sight is None else seen.in_sight
                if snapshot.at > seen.in_sight + silence_limit(self.lease):
                    return WaitOutcome(Ended.EXPIRED, self.incarnation, "it is still there after the kill")
            return None
        # A single look that still, or again, shows it must not end the wait: the silence would count anew.
        seen.in_sight = None
        writes = snapshot.state.may_write(self.incarnation)
        halts = 2 * self.lease + self.pause if writes and not driver.gone else self.lease
        if silent < (self.lease if self.ledger else halts):
            return None
        evidence = {"driver": driver.state.value, "submission": driver.submission, "silent_seconds": round(silent, 1)}
        if driver.gone:
            why = "killed and confirmed gone"
        else:
            why = f"its machine is lost, and it {'must have ended by now' if writes else 'may not write'}"
            evidence[MAY_WRITE] = writes
            if silent < halts:
                why = "its machine is lost, and the ledger of its sinks can refuse it"
                evidence[BY_LEDGER] = True
        still = {self.incarnation: snapshot.counter(self.incarnation)}
        return WaitOutcome(Ended.DEAD, self.incarnation, why, evidence, counters=still)


@dataclass(frozen=True)
class DriversGone(Condition):
    """The driver and executors of a deployment that does not hold are gone, or were on a machine that the cluster has
    lost: the driver reads there that it has ended. `grace_until`: seconds since 1970.
    """

    deployment: str
    grace_until: float

    soon: ClassVar[float] = 5.0
    WAITS_FOR: ClassVar[str] = "the driver of {deployment} to exit"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about its driver and executors."""
        return Needs(drivers=(self.deployment,))

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED, or EXPIRED when they are still there after the grace time and must be killed."""
        driver = snapshot.drivers.get(self.deployment)
        if driver is None or driver.out_of_sight:
            return WaitOutcome(Ended.REACHED, self.deployment)
        if snapshot.at > self.grace_until:
            return WaitOutcome(Ended.EXPIRED, self.deployment, "it did not exit by itself")
        return None


@dataclass(frozen=True)
class JobGone(Condition):
    """A job without a stream is confirmed gone, with its executors, by the cluster that was asked to end it.

    :param job: the cluster's id of it.
    """

    job: str

    pace: ClassVar[float] = 0.5
    soon: ClassVar[float] = 5.0
    # After so many seconds it is ended once more, or the wait is given up when the cluster cannot tell.
    PATIENCE: ClassVar[float] = 60.0
    WAITS_FOR: ClassVar[str] = "the cluster to confirm that {job} is gone"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about it."""
        return Needs(job=self.job)

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return REACHED when it is gone, EXPIRED when it is still there, UNKNOWN when that is not known."""
        found = snapshot.job
        if found is None or found.gone:
            return WaitOutcome(Ended.REACHED, self.job)
        there = bool(found.remains.alive) or not found.state.terminal
        seen.in_sight = (snapshot.at if seen.in_sight is None else seen.in_sight) if there else None
        seen.out_of_sight = None if there else snapshot.at if seen.out_of_sight is None else seen.out_of_sight
        if seen.in_sight is not None and snapshot.at > seen.in_sight + self.PATIENCE:
            return WaitOutcome(Ended.EXPIRED, self.job, "it is still there")
        if seen.out_of_sight is not None and snapshot.at > seen.out_of_sight + self.PATIENCE:
            return WaitOutcome(Ended.UNKNOWN, self.job, "the cluster cannot say whether it is gone")
        return None
