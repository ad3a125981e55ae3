"""What every cluster can do, and the words in which it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.lifecycle.errors import ClusterError


class DriverState(StrEnum):
    """What a cluster says of one submission; only the control log knows whether the stream is well."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """Whether the driver is over. UNKNOWN is not: no answer is neither alive nor dead."""
        return self not in (DriverState.QUEUED, DriverState.RUNNING, DriverState.UNKNOWN)

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    DriverState.QUEUED: "The cluster has accepted the driver and waits for free cores and memory.",
    DriverState.RUNNING: "The driver's process runs.",
    DriverState.FINISHED: "The driver ended with exit code 0.",
    DriverState.FAILED: "The driver ended with an error, or the cluster could not start it.",
    DriverState.KILLED: "The driver was killed.",
    DriverState.LOST: "The cluster does not know this driver; that is never a success.",
    DriverState.UNKNOWN: "The cluster does not answer now; the driver may be alive.",
}


@dataclass(frozen=True)
class Found:
    """The submissions of one deployment that a cluster knows of.

    `certain` is False while something could still turn out to be one: a queued driver, a worker that does not answer.
    Nobody submits a deployment (again) unless `alive` is empty and `certain` is True.
    """

    alive: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    certain: bool = True


class SubmitUnclear(ClusterError):
    """Whether a submission arrived is not known: look with `find` until it is certain, and never just repeat it."""


class Cluster(Protocol):
    """A place where drivers run. Every call asks the cluster anew and keeps nothing."""

    def check(self, job: Job) -> None:
        """Raise ClusterError unless the cluster answers and has room for the job's driver and executors."""

    def submit(self, job: Job) -> str:
        """Start the job's driver once and return the submission's id.

        :raises SubmitUnclear: the cluster may or may not have taken it.
        :raises ClusterError: the cluster refused, or was never reached; nothing runs.
        :raises SecretInConf: the conf holds a secret; nothing was sent.
        """

    def find(self, deployment: str, since: float) -> Found:
        """Return the submissions of a deployment, whoever made them.

        :param since: wall clock, s, of when the deployment was declared; it only bounds what is looked at.
        :raises ClusterError: the cluster does not answer.
        """

    def status(self, submission: str) -> DriverState:
        """Return the driver's state; UNKNOWN when the cluster does not answer."""

    def explain(self, submission: str) -> str:
        """Return one sentence for a person on how the driver is, with the cluster's own words where it has some."""

    def kill(self, submission: str) -> None:
        """Ask for the driver's end; killing one that is over already is no error.

        :raises ClusterError: the cluster does not answer.
        """

    def remains(self, submission: str, deployment: str) -> tuple[str, ...]:
        """Return, as sentences, what of the driver and its executors is not confirmed gone; empty when all is."""

    def gone(self, submission: str, deployment: str) -> bool:
        """Return whether driver and executors are confirmed gone; no answer is never a confirmation."""

    def links(self, submission: str) -> Mapping[str, str]:
        """Return where a person looks at the submission: label to URL or path; empty when nothing is known."""
