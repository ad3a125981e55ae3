"""The cluster as one actor reaches it: submit, find, look, kill, gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from airflow_stream_provider.clusters import DriverState, DriverView, FoundDrivers, Job, SubmitUnclear, Whose
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.ids import deployment_of
from tests.support.simulation.driver import Driver
from tests.support.simulation.wire import AT_WRITE, Fault
from tests.support.simulation.world import Actor, World

BOOT_SECONDS = 3.0


def boot(world: World, deployment: str, submission: str) -> Driver:
    """The cluster starts a driver of a deployment, for the first time or again."""
    driver = Driver(world, f"{deployment}.{len(world.drivers) + 1:08x}", submission)
    driver.due += BOOT_SECONDS
    return driver


class Reach:
    """A `Cluster` for one actor: others come between its calls, and answers get lost."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._world = actor.world

    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        reserved = note(self._reserve()) if self._world.reserves else ""
        there = job.deployment in self._world.submitted
        self._actor.point(doing="submit")
        self._answer()
        fault, self._actor.fault = self._actor.fault, Fault.NONE
        if fault in (Fault.LOST, Fault.ANSWER_LOST):
            self._actor.strikes(AT_WRITE[fault])
        if fault is Fault.LOST:
            raise SubmitUnclear("The request was lost.")
        submission = reserved or f"driver-{len(self._world.submitted) + 1}"
        if submission not in self._world.sent:
            if not reserved and not there and job.deployment in self._world.submitted:
                self._world.overlapping_submits += 1
            self._world.sent.add(submission)
            self._world.submitted.append(job.deployment)
            boot(self._world, job.deployment, submission)
        if fault is not Fault.NONE:
            raise SubmitUnclear("The answer was lost.")
        return submission

    def _reserve(self) -> str:
        self._actor.point(doing="reserve")
        self._answer()
        self._world.handed_out += 1
        return f"application-{self._world.handed_out}"

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        self._answer()
        drivers = [d for d in self._world.drivers.values() if d.deployment == whose.deployment]
        alive = {d.submission for d in drivers if not d.over}
        return FoundDrivers(tuple(sorted(alive)), tuple(sorted({d.submission for d in drivers} - alive)))

    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        self._answer()
        found = {}
        for id in ids:
            deployments = {d.deployment for d in self._world.drivers.values() if d.submission == id}
            ours = None if whose is None or not deployments else deployments == {whose.deployment}
            found[id] = DriverView(self._state(id), {}, ours)
        return found

    def lost(self, deployment: str) -> bool:
        """Whether the cluster has lost the machine of each driver of a deployment that is left."""
        if self._world.cluster_down or self._actor.cut:
            return False
        left = [d for d in self._world.drivers.values() if d.deployment == deployment and (d.writing or not d.over)]
        return any(d.lost for d in left) and all(d.lost for d in left)

    def _state(self, submission: str) -> DriverState:
        if submission.startswith("application-") and submission not in self._world.sent:
            return DriverState.RESERVED
        drivers = [d for d in self._world.drivers.values() if d.submission == submission]
        if any(d.lost for d in drivers) and all(d.lost or d.over for d in drivers):
            return DriverState.LOST
        return DriverState.RUNNING if any(not d.over for d in drivers) else DriverState.FAILED

    def gone(self, submission: str, deployment: str) -> bool:
        drivers = [d for name, d in self._world.drivers.items() if deployment_of(name) == deployment]
        return not self._world.cluster_down and not any(d.lost or d.writing or not d.over for d in drivers)

    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        self._actor.point()
        self._answer()
        for driver in self._world.drivers.values():
            if driver.submission == submission and not driver.lost:
                driver.kill()

    def _answer(self) -> None:
        if self._world.cluster_down or self._actor.cut:
            raise ClusterError("The cluster does not answer.")
