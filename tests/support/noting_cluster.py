"""A cluster that runs nothing: it notes what it is asked, and says what a test has told it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from airflow_stream_provider.clusters import (
    Cluster,
    DriverState,
    DriverView,
    FoundDrivers,
    Job,
    Remains,
    UnmanagedView,
    Whose,
)
from airflow_stream_provider.lifecycle.errors import ClusterError


class NotingCluster(Cluster):
    """`did`: submissions and kills in order. `reserves`: ids to hand out. `error` is raised by what is asked next.

    `left` and `lost` are the two halves of `remains`, except for the submissions in `of`; `applications` and `whose`
    are those that it was last asked about, and `conf` is what it last searched with. `logs`: their ends by
    submission. `strangers`: the ids of what is another team's. `foreign`: jobs that are not of this provider; one that
    is ended is then gone.
    """

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

    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        self._answer()
        self.jobs.append(job)
        submission = note(self.reserves.pop(0)) if self.reserves else f"driver-{len(self.jobs)}"
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

    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        self._answer()
        return {
            each: DriverView(
                self.states.get(each, DriverState.UNKNOWN),
                {"driver log": f"http://worker/{each}"},
                False if each in self.strangers else None,
            )
            for each in ids
        }

    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        self._answer()
        if submission in self.foreign:
            self.end(submission)
            return
        self.did.append(("kill", submission))
        self.applications = set(applications)

    def end(self, id: str) -> None:
        """End a job of `foreign`."""
        self.did.append(("end", id))
        self.foreign[id] = UnmanagedView(id, DriverState.KILLED)

    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
    ) -> Remains:
        self._answer()
        self.applications, self.hosts, self.whose = set(applications), hosts, whose
        return self.of.get(submission, Remains(self.left, self.lost))

    def unmanaged(self, id: str) -> UnmanagedView | None:
        return self.foreign.get(id)

    def forget(self, over: Collection[Whose]) -> None:
        self._answer()
        self.forgotten = sorted(each.deployment for each in over)

    def log_tail(self, submission: str) -> str:
        self._answer()
        return self.logs.get(submission, "")

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error
