"""The model check of an adoption: a job without a stream writes the checkpoint until it ends at any moment, and drivers
that are to follow it come up beside it.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.planning.adopt import adopt
from airflow_stream_provider.planning.condition import Needs
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome
from tests.support.simulation.airflow import Task
from tests.support.simulation.machine import Streams, some
from tests.support.simulation.oracle import PERSON
from tests.support.simulation.wishes import Ended, Wish
from tests.support.simulation.world import LONG, World

JOB = "driver-of-somebody"
# For which the logs have to stand still.
PATIENCE_SECONDS = 5.0


class OldJob:
    """It runs, and may write, until it ends.

    :param idle: it waits for data: its logs stand still, and it may write all the same.
    """

    def __init__(self, world: World, *, idle: bool) -> None:
        self.runs = True
        self.idle = idle
        self._world = world
        self._ended_at = 0.0

    def end(self) -> None:
        if self.runs:
            self.runs, self._ended_at = False, self._world.now

    @property
    def stands_still(self) -> bool:
        """Whether its logs have been seen to stand still for long enough."""
        return self.idle if self.runs else self._world.now - self._ended_at >= PATIENCE_SECONDS

    @property
    def view(self) -> UnmanagedView:
        if self.runs:
            return UnmanagedView(JOB, DriverState.RUNNING, "the old job", Remains(("It runs.",)))
        return UnmanagedView(JOB, DriverState.KILLED, "the old job")


class Adopts(Task):
    """As AdoptOperator.

    :param person: by whose word the job is gone, who may err; empty: the cluster ends it.
    """

    def __init__(self, world: World, identity: TaskIdentity, deployment: str, person: str = "") -> None:
        self.deployment = deployment
        self.person = person
        self._job = "" if person else JOB
        super().__init__(world, identity, Wish(self._plan, self._met))

    def again(self) -> Adopts:
        return Adopts(self.world, self.identity, self.deployment, self.person)

    def _plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        who = {"job": self._job, "confirmed_by": self.person}
        return adopt(snapshot, identity, self.deployment, outcome, "our first step", **who)

    def _met(self, ended: Ended) -> bool:
        """Done: somebody has asked this driver to take over, and it has."""
        asked = (r for r in ended.state.requests.values() if deployment_of(r.to or "") == self.deployment)
        return any(r.stage is RequestStage.DONE for r in asked) or not isinstance(ended.step, Done)

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        return Needs(job=self._job)

    def observe(self, needs: Needs = Needs()) -> Snapshot:  # noqa: B008 - frozen
        """The cluster first, then the log."""
        view = self._asked() if needs.job else None
        self.point(doing="look")
        return replace(super().observe(needs), job=view)

    def end_job(self, job: str) -> bool:
        self._asked()
        self.point(doing="end the job")
        assert self.world.old_job is not None
        self.world.old_job.end()
        return True

    def _asked(self) -> UnmanagedView:
        if self.world.cluster_down or self.cut:
            raise ClusterError("The cluster does not answer.")
        assert self.world.old_job is not None
        return self.world.old_job.view


class StreamsAdopting(Streams):
    """Nobody has held the stream, and a job without one runs; all that comes up is to follow it.

    That two are not begun side by side is for `check` and `foresee`: here they are, and do no harm either.
    """

    @property
    def old_job(self) -> OldJob:
        assert self.world.old_job is not None
        return self.world.old_job

    @initialize(idle=st.booleans(), errs=st.booleans())
    def begin(self, idle: bool, errs: bool) -> None:
        self.world.policies = (replace(LONG, adopts=True),)
        self.world.old_job = OldJob(self.world, idle=idle)
        self.adopt(0, errs)

    @rule(which=some, errs=st.booleans(), schedule=st.binary(max_size=48))
    def adopt(self, which: int, errs: bool = False, schedule: bytes = b"") -> None:
        """By its id; or a person says that it is gone, and errs: that is safe where the job writes on."""
        name = f"orders-{which % 2 + 1}"
        if name not in self.deployments:
            self.deployments.append(name)
        self.tasks += 1
        identity = TaskIdentity("orders__operate", f"run-{self.tasks}", "adopt")
        may_err = errs and not self.old_job.idle
        Adopts(self.world, identity, name, PERSON if may_err else "")
        self._go_on(self.world.awake, schedule)
        self.recovery.settle(36 if not schedule else 8)

    @rule(which=some, schedule=st.binary(max_size=48))
    def hand_over(self, which: int, schedule: bytes = b"") -> None:
        """No other release is deployed, nor promoted, while the job may run: `check` and `foresee` refuse that."""
        if not self.old_job.runs:
            super().hand_over(which, schedule)

    @rule(release=st.integers(0, 2))
    @precondition(lambda self: len(self.deployments) < 5 and not self.old_job.runs)
    def deploy(self, release: int) -> None:
        super().deploy(release)

    @rule(what=st.sampled_from(["hand over", "roll back", "stop", "retire", "give up"]), which=some)
    @precondition(lambda self: self.deployments)
    def ask(self, what: str, which: int) -> None:
        if what not in ("hand over", "roll back") or not self.old_job.runs:
            super().ask(what, which)

    @rule()
    def the_old_job_ends(self) -> None:
        """By itself."""
        self.old_job.end()

    def teardown(self) -> None:
        self.the_old_job_ends()
        for _ in range(10):
            self.world.tick(1.0)
        super().teardown()
