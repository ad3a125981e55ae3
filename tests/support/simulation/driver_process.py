"""What the agent of a simulated driver has around it: the process with its lease watchdog, its clocks, a lock."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import IncarnationState
from airflow_stream_provider.runtime.ports import LeaseOver
from tests.support.simulation.invariants import Broken

if TYPE_CHECKING:
    from tests.support.simulation.driver import Driver


class ShortHeartbeat(Heartbeat):
    """A heartbeat of which only that is stored which Airflow's side needs: most of the check's time goes into them."""

    def to_json(self) -> bytes:
        queries = b",".join(
            b'{"name": "%s", "batch": %s, "commits": [%s]}'
            % (
                each.name.encode(),
                str(each.batch).encode().replace(b"None", b"null"),
                b'{"at": 1.0}' if each.commits else b"",
            )
            for each in self.queries
        )
        text = b'{"counter": %d, "at": %.1f, "submission": "%s", "seq": %d, "epoch": %d, "queries": [%s]}'
        return text % (self.counter, self.at, self.submission.encode(), self.seq, self.epoch, queries)


class Jvm:
    """The driver's process, with the lease watchdog in its JVM, which goes by two clocks."""

    def __init__(self, driver: Driver) -> None:
        self.facts = ShortHeartbeat(submission=driver.submission)
        self.deadline = self.wall_deadline = float("inf")
        self._driver = driver

    @property
    def waits_for(self) -> str:
        job = self._driver.world.old_job
        return "" if job is None or job.stands_still else "The logs of the old job move."

    def arm(self, sent: float) -> None:
        """Let the lease run from this monotonic time."""
        driver = self._driver
        self.deadline = sent + driver.policy.lease_seconds
        self.wall_deadline = driver.world.now + driver.skew + self.deadline - driver.clock

    def postpone(self, sent: float) -> None:
        driver = self._driver
        if not self.in_time:
            raise LeaseOver("The lease had run out.")
        self.arm(max(self.deadline - driver.policy.lease_seconds, sent))
        driver.here.point()  # what it does now may rest on what it saw long ago

    def exit(self) -> None:
        if self._driver.log.state.holder == self._driver.incarnation:
            self._driver.world.violation = Broken("release-first", self._driver.incarnation)
        self._driver.end()

    def halt(self) -> None:
        found = self._driver.log.state.incarnations.get(self._driver.incarnation)
        # One that was frozen for a lease on its way out, by either clock, is ended by the timer in any case.
        finished = found is not None and found.state is IncarnationState.FINISHED
        if self.in_time and finished and not self._driver.raised:
            self._driver.world.violation = Broken("good-end", self._driver.incarnation)
        self._driver.end()

    @property
    def in_time(self) -> bool:
        """Whether the lease lasts by both clocks."""
        driver = self._driver
        return driver.clock < self.deadline and driver.world.now + driver.skew < self.wall_deadline


class Clock:
    """The clocks of the driver's machine."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def monotonic(self) -> float:
        return self._driver.clock

    def time(self) -> float:
        return self._driver.world.now + self._driver.skew

    def sleep(self, seconds: float) -> None:
        self._driver.here.point(seconds)


class Lock(AbstractContextManager[None]):
    """A lock between the threads of a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._held = False

    def __enter__(self) -> None:
        if self._driver.here is not self._driver:  # the agent's own thread has been at a point since it renewed
            self._driver.here.point()
        while self._held:
            self._driver.here.point(0.05)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
