"""Whether drivers are alive: what a task waits for that must not go by the control log alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.planning.condition import Condition, Needs, Observations
from airflow_stream_provider.planning.heartbeat_age import silence_limit
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome


@dataclass(frozen=True)
class SignsOfLife(Condition):
    """It is known whether each of these drivers is alive: the evidence tells by incarnation.

    :param counters: of their heartbeats when the wait began, by incarnation.
    :param lease: seconds.
    """

    counters: Mapping[str, int]
    lease: float

    SUBJECT: ClassVar[str] = "signs of life"

    @property
    @override
    def description(self) -> str:
        return f"a sign of life of {', '.join(self.counters)}"

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about drivers that have been silent for half a lease."""
        if snapshot is None:
            return Needs()
        silent = (i for i in self.counters if self._silent(seen.ages.seconds(snapshot, i)))
        return Needs(drivers=tuple(deployment_of(i) for i in silent))

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
        if snapshot.counter(incarnation) > self.counters[incarnation] and not self._silent(silent):
            return True
        return False if lost(snapshot, incarnation, silent, self.lease) else None

    def _silent(self, seconds: float) -> bool:
        return seconds > self.lease / 2


def lost(snapshot: Snapshot, incarnation: str, silent: float, lease: float) -> bool:
    """Return whether a driver that has been silent for so many seconds counts as lost."""
    driver = snapshot.drivers.get(deployment_of(incarnation))
    # A driver that pauses while the control folder is away is alive: only the cluster's word shortens this time.
    dead = driver is not None and driver.state.terminal
    return silent > (lease if dead else silence_limit(lease))
