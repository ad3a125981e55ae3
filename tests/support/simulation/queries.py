"""The queries of a simulated driver as one: started or not, paused or not, and what its batches do to the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.checkpoint import Seen, visible
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import CheckpointBroken, CheckpointError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from tests.support.simulation.data import ID, LISTING_SECONDS, Data, Run

if TYPE_CHECKING:
    from tests.support.simulation.driver import Driver

CHECKPOINT = "/checkpoints/orders"
BATCH_SECONDS = 1.0
# A release whose queries fail in their first batch.
BAD = "release-bad"
# How long the last commit is waited for (a minute in a driver).
SEEN_SECONDS = LISTING_SECONDS + 1.0


class Luck(IntEnum):
    """How a stop or a rehearsal goes."""

    GOOD = 0
    BOUNDARY_MISSED = 1
    INTERRUPTED = 2
    REFUSED = 3


class Mishap(StreamError):
    """What a query or a script ended with."""


class Queries:
    """What a simulated driver has for a `QueryGroup`."""

    label = "orders"
    ready = True
    trouble = ""

    def __init__(self, driver: Driver) -> None:
        self.started = self.over = self.paused = self.pause_missed = self.stopping = False
        # Whether it has committed a batch in this driver.
        self.proven = False
        self.run: Run | None = None
        self.batch: int | None = None
        # What the stream has seen of the checkpoint, as far as this driver knows in this hold.
        self.expected = Seen()
        # Whether it has started in this hold, and whether a start waits for the storage.
        self.begun = self.waits = False
        # What the checkpoint has shown when it was looked at last before this driver held.
        self._shown = Seen()
        self.stopped_at = 0.0
        self._loop: Any = None
        self._driver = driver

    def describe(self) -> list[dict[str, Any]]:
        shown = {"id": self._shown.id, "batch": self._shown.batch}
        return [{"name": self.label, "checkpoint": CHECKPOINT, **shown}] if self._driver.world.data else []

    def environment(self) -> dict[str, Any]:
        return {"spark": "4.0.0"}

    def progress(self) -> tuple[QueryProgress, ...]:
        if self._driver.world.data is None:
            return ()
        # When it was committed matters to nobody here, but that this driver knows it.
        seconds, at = (None, "") if self.batch is None else (1.0, "1970-01-01T00:00:00.000Z")
        # It names no checkpoint: what was seen of that, records tell alone.
        found = QueryProgress(self.label, "", batch=self.batch, batch_seconds=seconds, triggered_at=at)
        tells = bool(self._driver.policy.ledger) and self.batch is not None
        return (replace(found, id=ID, spark={"durationMs": {"addBatch": 1}}) if tells else found,)

    def ended(self) -> dict[str, QueryEnd]:
        # As the checkpoint says: a query that was started again has its last commit from before.
        if self._away:
            return {}
        data = self._driver.world.data
        return {} if data is None else self._end_at(data.shows(self._driver))

    def has_committed(self) -> bool:
        return self.proven

    def hold(self) -> Sequence[Queries]:
        self.batch = None
        self.expected, self.begun = Seen(), False
        return [self]

    def follow(self, progress: Sequence[QueryProgress]) -> None:
        return

    def let_go(self) -> None:
        return

    def check_seen(self, seen: Mapping[str, Seen]) -> None:
        data = self._driver.world.data
        if data is not None and not self._away:
            self._shown = data.shows(self._driver)
            if data.copy is not None:  # an old listing is waited for when it starts
                self._shown = self._await_seen(data, seen.get(CHECKPOINT, Seen()), SEEN_SECONDS) or Seen()

    def start(self, queries: Sequence[Queries], seen: Mapping[str, Seen]) -> None:
        self.expected = seen.get(CHECKPOINT, Seen())
        self._start()

    def _start(self) -> None:
        driver = self._driver
        driver.here.point()
        if self.over:
            return
        self.waits = True
        data = driver.world.data
        if data is not None:
            found = self._await_seen(data, self.expected, 0.0 if self.begun else SEEN_SECONDS)
            if found is None:
                return
            self.stopping, self.batch, self.run = False, None, None
            # Spark begins where the logs end.
            self._loop = driver.spawn(partial(self._batches, 0 if found.batch is None else found.batch + 1))
        self.begun = self.started = driver.writing = True
        self.waits = False

    def check_rewind(self, wanted: WantedRewind) -> None:
        self._driver.here.point()

    def rewind(self, queries: Sequence[Queries], due: DueRewind, seen: Mapping[str, Seen]) -> str:
        driver, data = self._driver, self._driver.world.data
        driver.here.point()
        if self.over or data is None:
            return ""
        after = due.stood.get(CHECKPOINT)
        if after is None:
            raise StreamError("The log does not say where it stood.")
        if self._await_seen(data, seen.get(CHECKPOINT, Seen()).and_then(Seen("", after)), SEEN_SECONDS) is None:
            raise CheckpointError("The storage is away.")
        if not data.is_rewound(driver, due.mark, after):
            driver.here.point()
            data.rewind(driver, due.mark, after)
            driver.here.point()
        return ""

    def _await_seen(self, data: Data, expected: Seen, seconds: float) -> Seen | None:
        """As `checkpoint.await_seen`, by the product's own decision; None: the storage is away."""
        driver = self._driver
        until = driver.clock + seconds
        while not self._away:
            found = data.shows(driver)
            if not visible.is_another(expected, found):
                return found
            if driver.clock >= until:
                raise CheckpointBroken(f"It has {found}, and {expected} was seen before.")
            driver.here.point(0.5)
        return None

    def stop(self, seconds: float) -> tuple[Mapping[str, QueryEnd], BoundaryMissed | None]:
        driver = self._driver
        driver.here.point()
        if not self.started:
            return self._end_at(Seen()) if self.waits else {}, None
        if self.paused:
            return {}, BoundaryMissed("Its lock is held.")
        if self._away and self._loop is not None:
            return {}, BoundaryMissed("Nobody can say where it would stop.")
        broken = driver.mishap in ("failed", "torn", "curable")
        missed = not broken and driver.world_says(Luck.BOUNDARY_MISSED)
        if not missed and not broken:
            missed = not self._ends_its_batch(seconds)
        if missed:
            self.stopping = False
            return {}, BoundaryMissed("Still inside a batch.")
        until = driver.clock + seconds
        while self._away and driver.clock < until:
            driver.here.point(0.5)
        if self._away:
            self._end(cut=broken)  # inside a batch: its tasks may go on
            driver.writing = driver.mishap == "torn" and driver.writing
            return {}, BoundaryMissed("It has stopped, and nobody can say where.")
        torn = driver.mishap == "torn" if broken else driver.world_says(Luck.INTERRUPTED)
        self._end(cut=broken or torn)
        self.started, driver.writing = False, torn and driver.writing
        self.stopped_at = driver.clock
        driver.here.point()
        end = QueryEnd(not broken and not torn, self._last(), int(torn), CHECKPOINT, self.expected.id)
        return {self.label: end}, None

    def interrupt(self) -> dict[str, QueryEnd]:
        self._driver.here.point()
        self._end(cut=True)
        self.started = False  # what its last batch writes may still arrive
        return {} if self._away else {self.label: QueryEnd(False, self._last(), 0, CHECKPOINT, self.expected.id)}

    def restart_in_place(self) -> None:
        if self.started and self._loop is not None:
            return  # it missed its boundary, and runs on
        self.restart([self])

    def pause(self, seconds: float) -> None:
        self.pause_missed = self._driver.world_says(Luck.BOUNDARY_MISSED)
        if self.pause_missed:
            raise BoundaryMissed("Its lock was not had.")
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def unable(self) -> tuple[Queries, Exception] | None:
        return None

    def tend(self) -> tuple[Sequence[Queries], tuple[str, Exception] | None]:
        driver = self._driver
        if self.waits:
            return [self], None
        if not self.started or not driver.mishap:
            return [], None
        if driver.mishap == "finished":
            self._end(cut=True)
            self.over, self.started, driver.writing = True, False, False
            driver.script_ends()
            return [], None
        self._end(cut=True)
        if driver.mishap == "curable":
            driver.mishap, driver.writing = "", False
            return [self], None
        return [], ("The query orders failed and no restart cures it", Mishap("It broke."))

    def restart(self, queries: Sequence[Queries]) -> None:
        self._start()

    # -- the batches -----------------------------------------------------------------------------------------------

    @property
    def _away(self) -> bool:
        return self._driver.world.checkpoint_down

    def _end_at(self, found: Seen) -> dict[str, QueryEnd]:
        """Where it stands by the checkpoint and by what was seen, which may have been removed meanwhile."""
        seen = self.expected.and_then(found)
        return {} if seen.batch is None else {self.label: QueryEnd(True, seen.batch, 0, CHECKPOINT, seen.id)}

    def _last(self) -> int | None:
        data = self._driver.world.data
        return data.committed - 1 if data is not None and data.committed else None

    def _end(self, *, cut: bool) -> None:
        if self.run is not None:
            self.run.cut |= cut
        self.run = None
        if self._loop is not None:
            self._loop.stop()
            self._loop = None

    def _ends_its_batch(self, seconds: float) -> bool:
        """Wait for the batch boundary; return whether it was reached."""
        driver, self.stopping = self._driver, True
        until = driver.clock + seconds
        while self.run is not None and driver.clock < until:
            driver.here.point(0.2)
        return self.run is None

    def _rests(self) -> bool:
        return self.paused or self.stopping or self._away or bool(self._driver.mishap) or self._errs()

    def _errs(self) -> bool:
        """Whether it goes on though a person has given the stream away: what it wrote would be the person's fault."""
        data, driver = self._driver.world.data, self._driver
        return driver.excused and data is not None and data.holder != driver.incarnation

    def _batches(self, number: int) -> None:
        driver = self._driver
        data, here = driver.world.data, driver.here
        assert data is not None
        while True:
            while self._rests():
                here.point(0.2)
            run = self.run = data.plan(driver, number, driver.world.now)
            if run is None:  # Spark finds that another driver has planned this batch, and its query fails
                driver.mishap = "curable"
                continue
            here.point(BATCH_SECONDS / 4, "batch")
            if driver.release == BAD:
                driver.mishap = "failed"
                continue
            if driver.world.refuses(driver):
                driver.mishap = "failed"
                continue
            run.wrote = True
            assert driver.agent is not None
            try:
                driver.agent.guard()
            except StreamError:
                driver.mishap = "failed"
                continue
            here.point(0.0, "commit")
            while self.paused or self._away or self._errs():
                here.point(0.2)
            if not data.commit(run):  # another driver has committed it
                driver.mishap = "curable"
                continue
            self.run, self.batch, self.proven = None, number, True
            self.expected = self.expected.and_then(Seen(ID, number))
            number += 1
            here.point(BATCH_SECONDS)
