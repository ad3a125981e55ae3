"""The model check of an adoption: a job without a stream writes the checkpoint until it ends at any moment, and drivers
that are to follow it come up beside it.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.planning import verbs
from tests.support.simulation.airflow import Task, by, stop, take_over
from tests.support.simulation.machine import Streams, some
from tests.support.simulation.oracle import PERSON
from tests.support.simulation.wishes import Wish
from tests.support.simulation.world import World

JOB = "driver-of-somebody"
# For which the logs have to stand still.
PATIENCE_SECONDS = 5.0
# How a job is adopted: the cluster ends it, a person says that it is gone, or its follower stands by until one of them.
ways = st.sampled_from(["by its id", "by a person's word", "not yet"])


class OldJob:
    """It runs, and may write, until it ends.

    :param idle: it waits for data: its logs stand still, and it may write all the same.
    :param cut_off: the cluster does not reach its machine, so it neither ends it nor confirms that it is gone.
    """

    def __init__(self, world: World, *, idle: bool, cut_off: bool = False) -> None:
        self.runs = True
        self.idle = idle
        self._cut_off = cut_off
        self._killed = False
        # The deployment for which somebody has ended it, until the oracle has seen that.
        self.ended_for = ""
        self._world = world
        self._ended_at = 0.0

    def end(self) -> None:
        if self.runs:
            self.runs, self._ended_at = False, self._world.now

    def kill(self) -> None:
        """By the cluster."""
        self._killed = True
        if not self._cut_off:
            self.end()

    @property
    def stands_still(self) -> bool:
        """Whether its logs have been seen to stand still for long enough."""
        return self.idle if self.runs else self._world.now - self._ended_at >= PATIENCE_SECONDS

    @property
    def view(self) -> UnmanagedView:
        if self.runs and not self._killed:
            return UnmanagedView(JOB, DriverState.RUNNING, "the old job", Remains(("It runs.",)))
        if self.runs:
            return UnmanagedView(JOB, DriverState.KILLED, "the old job", Remains((), ("Its worker is DEAD.",)))
        return UnmanagedView(JOB, DriverState.KILLED, "the old job")


def adopt(*, job: str = "", person: str = "") -> Wish:
    """As AdoptOperator.

    :param job: which the cluster ends.
    :param person: by whose word the job is gone, who may err. With neither, a person is asked to end the job.
    """
    return by(lambda scene: verbs.adopt(scene, "our first step", job=job, confirmed_by=person))


class StreamsAdopting(Streams):
    """Nobody has held the stream, and a job without one runs; what comes up is to follow it.

    That two are not begun side by side is for `check` and the forecast: here they are, and do no harm either. Upgrades
    that follow no job go on beside them: the log refuses the appointment of their drivers.
    """

    @property
    def old_job(self) -> OldJob:
        assert self.world.old_job is not None
        return self.world.old_job

    @initialize(idle=st.booleans(), how=ways, given_up=st.booleans())
    def begin(self, idle: bool, how: str, given_up: bool = False) -> None:
        """Given up: nobody confirms the end of the job, its follower was ended, and a start is asked for."""
        self.world.old_job = OldJob(self.world, idle=idle, cut_off=given_up)
        self.adopt("by its id" if given_up else how)
        if given_up:
            for each in self.world.actors:
                if isinstance(each, Task):
                    each.crash()
            self.ask("retire", 0)
            self.recovery.settle(36)
            self.deploy(0)
            self.hand_over(1)

    @rule(how=ways, schedule=st.binary(max_size=48))
    def adopt(self, how: str, schedule: bytes = b"") -> None:
        """A person may err who says that it is gone: that is safe where the job writes on."""
        errs = how == "by a person's word" and not self.old_job.idle
        job = "" if errs or how == "not yet" else JOB
        self.families.append(self._task(adopt(job=job, person=PERSON if errs else "")).identity.wish)
        self._go_on(self.world.awake, schedule)
        self.recovery.settle(36 if not schedule else 8)

    @rule(which=some, schedule=st.binary(max_size=48))
    def hand_over(self, which: int, schedule: bytes = b"") -> None:
        """An upgrade that was checked before anybody thought of the adoption: its driver is appointed, or is not."""
        if not self.old_job.runs:
            super().hand_over(which, schedule)
            return
        busy = any(isinstance(each, Task) and not each.over for each in self.world.actors)
        if self._job_is_known and not busy:
            task = self._task(take_over(self.families[which % len(self.families)]))
            self.recovery.settle(36)
            # Who goes on with it later may find neither, and it is then for the driver to see that the logs move.
            task.crash()

    @property
    def _job_is_known(self) -> bool:
        """By the log. Else a person has called off its follower, or stopped the stream: a start is at his own risk."""
        return bool(self.oracle.state.follower) or self.oracle.state.job is not None

    @rule(which=some)
    def try_again(self, which: int) -> None:
        if self._job_is_known or not self.old_job.runs:
            super().try_again(which)

    @rule(what=st.sampled_from(["hand over", "roll back", "stop", "retire", "call off", "give up"]), which=some)
    @precondition(lambda self: self.families)
    def ask(self, what: str, which: int) -> None:
        if what not in ("hand over", "roll back") or not self.old_job.runs:
            super().ask(what, which)

    @rule()
    def the_old_job_ends(self) -> None:
        """By itself."""
        self.old_job.end()

    def end(self) -> None:
        """The watch brings the stream to run, or people are told; then a person calls off what followed nothing."""
        self.the_old_job_ends()
        for _ in range(10):
            self.world.tick(1.0)
        self.recovery.heal()
        self.recovery.drivers_alone()
        self.recovery.watch(runs=True)
        if self.oracle.state.holder is None:
            self.recovery.finish(self._task(stop()))
        super().end()
