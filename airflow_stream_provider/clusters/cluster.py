"""The interface that every cluster implements, and the types of its answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.lifecycle.errors import ClusterError

# Seconds by which the clocks of Airflow's machines may differ: what one has declared, another one searches for. The
# cluster's own clock is read from its answers.
CLOCK_SLACK = 60.0


class DriverState(StrEnum):
    """The state of a driver as its cluster reports it.

    It says nothing about the stream: whether its queries run is in the control log.
    """

    RESERVED = "reserved"
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """Whether the driver has ended. UNKNOWN is not terminal: without an answer the driver may be alive."""
        return self not in (DriverState.RESERVED, DriverState.QUEUED, DriverState.RUNNING, DriverState.UNKNOWN)

    @property
    def reserved(self) -> bool:
        """Whether the cluster has handed out this id and has no driver of it: `Cluster.submit` may take it."""
        return self is DriverState.RESERVED

    @property
    def known(self) -> bool:
        """Whether the cluster has answered."""
        return self is not DriverState.UNKNOWN

    @property
    def description(self) -> str:
        """The state in one sentence, for logs and error messages."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    DriverState.RESERVED: "The cluster has reserved the driver's id, and has no driver of that id.",
    DriverState.QUEUED: "The cluster accepted the driver, and has not started it yet.",
    DriverState.RUNNING: "The driver is running.",
    DriverState.FINISHED: "The driver ended with exit code 0.",
    DriverState.FAILED: "The driver ended with an error, or the cluster could not start it.",
    DriverState.KILLED: "The driver was killed.",
    DriverState.LOST: "The cluster does not know this driver. This never counts as success.",
    DriverState.UNKNOWN: "The cluster does not answer, so the driver may still be alive.",
}


@dataclass(frozen=True)
class FoundDrivers:
    """The drivers of one deployment that `Cluster.find` found.

    Submit a deployment again only if `alive` is empty and `certain` is True.

    :param alive: submission ids of the drivers that wait or run.
    :param ended: submission ids of the drivers that have ended, as far as the cluster still knows them.
    :param certain: False while the search may have missed a driver of the deployment: a candidate waits in the queue,
        or on a worker that does not answer, or does not name its control log (`Whose.runs`), and was submitted less
        than five minutes ago. An older one has named itself in its heartbeat, or, when it starts at last, sees that
        another has been submitted and exits.
    """

    alive: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True)
class Remains:
    """The parts of a driver that may be left: a sentence for each.

    :param alive: what the cluster lists, or cannot rule out now.
    :param lost: the parts on a machine that the cluster has lost. They may still run: the machine may be without power,
        or only cut off. It counts as gone when its heartbeat has stood still for the lease and `Policy.pause_seconds`,
        after which the driver has halted itself, and another lease, for its executors.
    """

    alive: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def gone(self) -> bool:
        """Whether driver, application and executors are confirmed gone."""
        return not self.alive and not self.lost


@dataclass(frozen=True)
class DriverView:
    """A driver as one look at its cluster shows it.

    :param links: URLs or paths of its log and its web UI, by label; ``driver log`` among them.
    :param ours: whether it is of the deployment that `Cluster.look` was asked about; None: it is not known.
    """

    state: DriverState
    links: Mapping[str, str] = field(default_factory=dict)
    ours: bool | None = None


@dataclass(frozen=True)
class UnmanagedView:
    """The finding of one look at a job that this provider has not started.

    :param state: of its driver; LOST for what the cluster does not know.
    :param about: what it is, for a person, such as ``application app-… (orders) of spark``.
    :param remains: what may be left of it and its executors.
    :param managed: whether a stream of this provider runs it: then it is not for adoption. None: that is not known.
    """

    id: str
    state: DriverState
    about: str = ""
    remains: Remains = field(default_factory=Remains)
    managed: bool | None = False

    @property
    def gone(self) -> bool:
        """Whether the cluster confirms that it and its executors have ended. A driver that it does not know is not
        gone.
        """
        return self.state.terminal and self.state is not DriverState.LOST and self.remains.gone


@dataclass(frozen=True)
class ClusterFacts:
    """The facts that a cluster tells of itself and of one driver, for the audit.

    :param settings: of its daemons, by name: of a standalone master those that are set, of YARN's ResourceManager and
        of one NodeManager those that count.
    :param problem: why the settings are not known; empty: they are.
    :param ended_executors: how many executors of the driver's application have ended, each of which may have left a
        folder; None: not known.
    :param executor_log: bytes of the largest log that an executor of it writes to now; None: not known.
    :param pod: of the driver, as the API server has it; empty: there is none.
    :param node_labels: of the pod's node; None: not known.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    problem: str = "This kind of cluster does not tell its settings."
    ended_executors: int | None = None
    executor_log: int | None = None
    pod: Mapping[str, Any] = field(default_factory=dict)
    node_labels: Mapping[str, str] | None = None


class SubmitUnclear(ClusterError):
    """The cluster may or may not have accepted a submission.

    Call `Cluster.find` until its result is certain. Submitting again at once may start a second driver.
    """


class Cluster(ABC):
    """A place where drivers run. Every method asks the cluster again; nothing is cached."""

    def answer(self) -> str:
        """Return in a sentence for a person what answers at the connection's addresses. Nothing is started.

        Only a kind of cluster with a form of its own (get_provider_info.py) needs it.

        :raises ClusterError: the cluster does not answer, or refuses what a stream needs of it.
        """
        raise ClusterError(
            "A connection to this kind of cluster has no test.",
            next_step="Run `airflow streams check` for a stream that uses it.",
        )

    @abstractmethod
    def check(self, job: Job) -> None:
        """Check that the cluster answers and has room for the job's driver and executors. Nothing is started.

        :raises ClusterError: the cluster does not answer or has no room.
        :raises SecretInConf: the conf holds a secret.
        """

    @abstractmethod
    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        """Start one driver for the job and return its submission id.

        :param note: writes an id down, and returns the one that counts: that of another try, if that has noted its own.
            Where the cluster knows the id before it starts something, it is noted first, and the one that counts is
            sent. That makes a submission exactly one, however often it is tried: an id never has more than one driver.
        :raises SubmitUnclear: the cluster may or may not have accepted the submission.
        :raises ClusterError: the cluster refused it or could not be reached. No driver was started.
        :raises SecretInConf: the conf holds a secret. Nothing was sent.
        """

    @abstractmethod
    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        """Return all drivers of a deployment, also those that another process submitted; never one of another log.

        :param since: when the deployment was declared, in seconds since 1970. Drivers submitted earlier are skipped.
        :param conf: Spark conf of its job: a queued driver that asks for other cores or memory is not its own.
        :raises ClusterError: the cluster does not answer.
        """

    @abstractmethod
    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return what the cluster runs for a stream, of whatever deployment: by an id of the cluster's, its deployment.

        Of drivers that say their control log.

        :param log: what tells the stream's control log from any other (`Store.origin`); empty: nothing is found.
        :raises ClusterError: the cluster does not answer.
        """

    @abstractmethod
    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        """Return what the cluster says of many drivers, at the cost of one question.

        A heartbeat says any id, and the account of the connection may kill other teams' drivers and read their logs. So
        what only a heartbeat names is killed, or shown, only if `DriverView.ours` is not False. It is False only with
        proof: one of ours that is taken for a stranger's would not be fenced.

        :param ids: of drivers; with `whose` also of Spark applications.
        :param whose: the deployment that `ours` is about; None: it is not looked at.
        :raises ClusterError: the cluster does not answer.
        """

    @abstractmethod
    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Ask the cluster to kill the driver, or a job of `unmanaged`. Killing one that has ended is not an error.

        It does not ask whose they are; see `look`.

        :param applications: ids of its Spark applications, from its heartbeats: what they left behind is killed, too.
        :raises ClusterError: the cluster does not answer, or refuses.
        """

    @abstractmethod
    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
    ) -> Remains:
        """Return what may be left of the driver, its application and its executors. A missing answer confirms nothing.

        :param applications: ids of its Spark applications, from its heartbeats.
        :param hosts: every host that its executors have run on, from its heartbeats; None: any.
        """

    @abstractmethod
    def log_tail(self, submission: str) -> str:
        """Return the end of what the driver has written, also once it has ended; empty if the cluster cannot tell.

        It is for a person: short, and without what looks like a secret (`log_tail.tail`).
        """

    def facts(self, submission: str, applications: Collection[str] = ()) -> ClusterFacts:
        """Return what the cluster says of itself and of a driver, for the audit; by default that it says nothing.

        :param applications: ids of its Spark applications, from its heartbeats.
        :raises ClusterError: the cluster does not answer.
        """
        return ClusterFacts()

    def unmanaged(self, id: str) -> UnmanagedView | None:
        """Return what the cluster says of a job that this provider has not started, and that `kill` can end.

        None, as by default: this cluster cannot surely say that one has ended. A person ends it.

        :raises ClusterError: that is no id of this cluster, or the cluster does not answer.
        """
        return None

    def unmanaged_settings(self, id: str) -> tuple[str, Mapping[str, str]]:
        """Return the version of Spark that a job of `unmanaged` runs on, and its settings, as its Spark UI shows them.

        An empty version, as by default: this cluster cannot tell.

        :raises ClusterError: the UI does not answer, or the cluster does not.
        """
        return "", {}

    def forget(self, over: Collection[Whose]) -> None:  # noqa: B027 - most clusters keep nothing for us
        """Remove the cluster's proofs of drivers' ends. A driver that is not proven to be over stays.

        :param over: deployments whose end is in the control log, and whose drivers are not to be fenced any more.
        :raises ClusterError: the cluster does not answer, or refuses.
        """


def status_of(cluster: Cluster, submission: str) -> DriverState:
    """Return the driver's state, UNKNOWN if the cluster does not answer."""
    try:
        return cluster.look([submission])[submission].state
    except ClusterError:
        return DriverState.UNKNOWN
