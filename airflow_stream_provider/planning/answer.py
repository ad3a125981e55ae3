"""While a person thinks about a new release: is there still something to decide? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.condition import Condition, Needs, Observations
from airflow_stream_provider.planning.descent import family
from airflow_stream_provider.planning.signs_of_life import lost
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome


@dataclass(frozen=True)
class Answered(Condition):
    """A person has answered, which this does not see; or the question makes no sense any more.

    It does not when the release that was shown cannot take over any more, and when another one holds than it was
    compared with, or the stream was stopped. A holder that dies meanwhile and is brought back is the same release.

    :param deployment: the one that stands by.
    :param holding: the deployment that held the stream when the question was asked; empty: nobody.
    """

    deployment: str
    holding: str

    WAITS_FOR: ClassVar[str] = "an answer about {deployment}"
    pace: ClassVar[float] = 5.0

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about a driver that has been silent for half a lease."""
        standby = snapshot.candidate(self.deployment) if snapshot else None
        if snapshot is None or standby is None:
            return Needs()
        silent = seen.ages.seconds(snapshot, standby.id) > snapshot.lease([standby.id]) / 2
        return Needs(drivers=(self.deployment,) if silent else ())

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return GONE when there is nothing left to decide, and why, as a sentence."""
        why = self._standby(snapshot, seen) or self._holder(snapshot)
        return WaitOutcome(Ended.GONE, self.deployment, f"{why} {snapshot.holder_sentence}") if why else None

    def _standby(self, snapshot: Snapshot, seen: Observations) -> str:
        if snapshot.state.deployments[self.deployment].ended:
            reason = snapshot.why_ended(self.deployment) or "no reason is given"
            return f"{self.deployment} has ended: {reason.rstrip('.')}."
        standby = snapshot.candidate(self.deployment)
        if standby is None:
            return "" if snapshot.holds(self.deployment) else f"{self.deployment} has no driver that could take over."
        silent = seen.ages.seconds(snapshot, standby.id)
        if lost(snapshot, standby.id, silent, snapshot.lease([standby.id])):
            return f"The driver of {self.deployment} has given no sign of life for {silent:.0f} s."
        return ""

    def _holder(self, snapshot: Snapshot) -> str:
        holding, state = snapshot.holding, snapshot.state
        if holding and holding != self.deployment and holding not in family(state, self.holding):
            return f"{holding} has taken over since {self.deployment} was compared with {self.holding or 'nobody'}."
        if self.holding and state.phase in (StreamPhase.STOPPED, StreamPhase.FINISHED):
            return f"The stream is {state.phase.value} by now."
        return ""
