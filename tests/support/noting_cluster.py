"""A cluster that runs nothing: it notes what it is asked, and says what a test has told it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from airflow_stream_provider.clusters import (
    DriverState,
    DriverView,
    FoundDrivers,
    Job,
    Remains,
    UnmanagedJob,
    UnmanagedView,
    Whose,
)
from airflow_stream_provider.clusters.cluster import Traits
from airflow_stream_provider.lifecycle.errors import ClusterError


class _Foreign:
    """One of the jobs of `NotingCluster.foreign`."""

    def __init__(self, cluster: NotingCluster, id: str) -> None:
        self._cluster = cluster
        self._id = id

    def look(self) -> UnmanagedView:
        return self._cluster.foreign[self._id]

    def end(self) -> None:
        self._cluster.did.append(("end", self._id))
        self._cluster.foreign[self._id] = UnmanagedView(self._id, DriverState.KILLED)


class NotingCluster:
    """`did`: submissions and kills in order. `reserves`: ids to hand out. `error` is raised by what is asked next.

    `left` and `lost` are the two halves of `remains`, except for the submissions in `of`; `applications` and `whose`
    are those that it was last asked about, and `conf` is what it last searched with. `logs`: their ends by
    submission. `strangers`: the ids of what is another team's. `foreign`: jobs that are not of this provider; one that
    is ended is then gone.
    """

    traits: ClassVar[Traits] = Traits("noting", 0.0, True, "nobody", "the test says so", "the test says so")

    def __init__(self) -> None:
        self.did: list[tuple[str, str]] = []
        self.reserves: list[str] = []
        self.jobs: list[Job] = []
        self.searched: list[tuple[str, float]] = []
        self.conf: Mapping[str, str] | None = None
        self.whose: Whose | None = None
        self.found = FoundDrivers()
        self.runs: dict[str, str] = {}
        self.states: dict[str, DriverState] = {}
        self.logs: dict[str, str] = {}
        self.left: tuple[str, ...] = ()
        self.lost: tuple[str, ...] = ()
        self.of: dict[str, Remains] = {}
        self.applications: set[str] = set()
        self.hosts: Collection[str] | None = None
        self.forgotten: list[str] = []
        self.strangers: set[str] = set()
        self.foreign: dict[str, UnmanagedView] = {}
        self.full: ClusterError | None = None
        self.error: ClusterError | None = None

    def check(self, job: Job) -> None:
        self._answer()
        if self.full is not None:
            raise self.full

    def reserve(self, job: Job) -> str:
        self._answer()
        return self.reserves.pop(0) if self.reserves else ""

    def submit(self, job: Job, reserved: str = "") -> str:
        self._answer()
        self.jobs.append(job)
        submission = reserved or f"driver-{len(self.jobs)}"
        self.did.append(("submit", submission))
        self.states[submission] = DriverState.RUNNING
        return submission

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        self._answer()
        self.conf, self.whose = conf, whose
        self.searched.append((whose.deployment, since))
        return self.found

    def running(self, stream: str, log: str) -> Mapping[str, str]:
        self._answer()
        return self.runs

    def status(self, submission: str) -> DriverState:
        self._answer()
        return self.states.get(submission, DriverState.UNKNOWN)

    def overview(self, submissions: Collection[str]) -> Mapping[str, DriverView]:
        self._answer()
        return {each: DriverView(self.status(each), self.links(each)) for each in submissions}

    def belongs(self, id: str, whose: Whose) -> bool | None:
        self._answer()
        return None if id not in self.strangers else False

    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        self._answer()
        self.did.append(("kill", submission))
        self.applications = set(applications)

    def remains(
        self,
        submission: str,
        whose: Whose,
        applications: Collection[str] = (),
        hosts: Collection[str] | None = None,
    ) -> Remains:
        self._answer()
        self.applications, self.hosts, self.whose = set(applications), hosts, whose
        return self.of.get(submission, Remains(self.left, self.lost))

    def unmanaged(self, id: str) -> UnmanagedJob | None:
        return _Foreign(self, id) if id in self.foreign else None

    def forget(self, over: Collection[Whose]) -> None:
        self._answer()
        self.forgotten = sorted(each.deployment for each in over)

    def links(self, submission: str) -> Mapping[str, str]:
        self._answer()
        return {"driver log": f"http://worker/{submission}"}

    def log_tail(self, submission: str) -> str:
        self._answer()
        return self.logs.get(submission, "")

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error
