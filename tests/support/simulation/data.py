"""The data of the simulated stream: what Kafka has, the batches in the checkpoint, and what the sink has got."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.lifecycle.errors import CheckpointError
from tests.support.simulation.invariants import Broken, expect

if TYPE_CHECKING:
    from tests.support.simulation.driver import Driver

PARTITIONS = 2
# How old a machine's listing of the checkpoint may be, where the product counts on a bound (a minute in NFS).
LISTING_SECONDS = 15.0
# Spark's id of the query.
ID = "query-1"
Offsets = tuple[int, ...]


@dataclass
class Run:
    """One run of a batch by one driver. `cut`: it was killed, or failed, inside the batch."""

    batch: int
    driver: Driver
    wrote: bool = False
    cut: bool = False


@dataclass
class Batch:
    """A planned batch: the offsets that it reads up to, by partition."""

    begins: Offsets
    ends: Offsets
    runs: list[Run] = field(default_factory=list)
    committed_at: float | None = None
    # For which deployment its end was set back.
    rewound: str = ""


class Data:
    """The checkpoint and the sink, as they are. A driver may see the last commits of another one late."""

    def __init__(self) -> None:
        # By the log; set by the oracle.
        self.holder: str | None = None
        # How old a listing may be at most: for ever after a hand-over, when it is an error not to see the last commit;
        # not at all after a fence, when nobody knows it, and only that the logs are listed anew helps.
        self.listing_seconds = LISTING_SECONDS
        self.batches: list[Batch] = []
        self.committed = 0
        self.doubled = 0
        # What is in the checkpoint's place until somebody puts it back; None: the checkpoint itself.
        self.copy: Seen | None = None
        # Deployments that have set the stream back.
        self.rewound: set[str] = set()
        # The last one that has come to hold and was to; None once it has failed. By the log; set by the oracle.
        self.owed: str | None = None

    def seen(self, driver: Driver) -> int:
        """How many committed batches a driver's machine sees: not fewer than it has seen."""
        driver.saw = max(driver.saw, self._visible(driver))
        return driver.saw

    def shows(self, driver: Driver) -> Seen:
        """What is at the checkpoint's place, as a driver's machine sees it."""
        if self.copy is not None:
            return self.copy
        seen = self.seen(driver)
        return Seen(ID if self.batches else "", seen - 1 if seen else None)

    def _visible(self, driver: Driver) -> int:
        late = driver.world.now - min(driver.sees_late, self.listing_seconds)
        seen = self.committed
        while seen:
            last = self.batches[seen - 1]
            at = last.committed_at
            if at is None or at <= late or last.runs[-1].driver is driver:
                return seen
            seen -= 1
        return 0

    def plan(self, driver: Driver, number: int, now: float) -> Run | None:
        """Begin a batch: the one that the checkpoint has planned, or a new one up to what Kafka has now.

        None: the ledger refuses this driver, and another one has planned it since.
        """
        refuses = driver.world.refuses
        if refuses(driver) and number < len(self.batches) and self.batches[number].runs[-1].driver is not driver:
            return None
        if number == len(self.batches):
            if not refuses(driver):
                self._check_rewound(driver)
            # What has another id knows nothing of this stream's offsets.
            mine = self.batches and (self.copy is None or self.copy.id == ID)
            begins = self.batches[-1].ends if mine else (0,) * PARTITIONS
            self.batches.append(Batch(begins, self.end_of(begins, now)))
        batch = self.batches[number]
        for earlier in batch.runs:
            refused = refuses(earlier.driver)
            over = earlier.cut or earlier.driver.said_dead or refused
            expect(over, "no-double", f"batch {number} by {driver.incarnation} after {earlier.driver.incarnation}")
            self.doubled += earlier.wrote and not refused  # what the sink has of it, the ledger says
        late = batch.runs and refuses(batch.runs[-1].driver)
        expect(batch.committed_at is None or late, "no-double", f"batch {number} is committed already")
        batch.runs.append(Run(number, driver))
        return batch.runs[-1]

    def is_rewound(self, driver: Driver, deployment: str, after: int) -> bool:
        """Whether the stream was set back for a deployment, by the mark in the batch behind which that is done.

        It is not done behind a batch that was run since.
        """
        seen = self.seen(driver)
        if self.batches[after].rewound == deployment:
            return True
        if seen != after + 1 or seen != len(self.batches):
            raise CheckpointError("Batches were run or planned since.")
        return False

    def rewind(self, driver: Driver, deployment: str, after: int) -> None:
        """Let the next batch begin earlier, as the checkpoint says where the last one has ended."""
        # Whom a person has wrongly said to be dead may not have read that yet.
        holds = driver.incarnation == self.holder or driver.said_dead
        if not holds or (deployment in self.rewound and not driver.said_dead):
            driver.world.violation = Broken("rewinds-once", f"{driver.incarnation} for {deployment}")
        self.rewound.add(deployment)
        self.batches[after].ends = tuple(max(0, end - 10) for end in self.batches[after].ends)
        self.batches[after].rewound = deployment

    def _check_rewound(self, driver: Driver) -> None:
        """Whoever plans a batch after a rewind was asked for has it done, or tells that it was left undone."""
        if self.owed is None or self.owed in self.rewound:
            return
        assert driver.agent is not None
        told = driver.agent._acts._heartbeat.rewind_undone
        expect(told or driver.said_dead, "rewinds-or-tells", f"{driver.incarnation} for {self.owed}")
        self.owed = None if told else self.owed

    def end_of(self, begins: Offsets, now: float) -> Offsets:
        """Where the topic ends now, by partition."""
        return tuple(max(begin, int(now) * 10) for begin in begins)

    def commit(self, run: Run) -> bool:
        """End a batch; return False where another driver has ended it and the ledger refuses one of the two."""
        batch, refused = self.batches[run.batch], run.driver.world.refuses(run.driver)
        commits = run.driver.incarnation == self.holder or (refused and run.wrote)
        expect(commits, "holder-commits", f"{run.driver.incarnation}, not {self.holder}")
        if batch.committed_at is not None and (refused or run.driver.world.refuses(batch.runs[-1].driver)):
            return False
        expect(batch.committed_at is None, "no-double", f"batch {run.batch} is committed twice")
        # The last run is the one that has committed it.
        batch.runs.sort(key=lambda each: each is run)
        before = self.batches[run.batch - 1] if run.batch else None
        gap = before is not None and (before.committed_at is None or before.ends != batch.begins)
        expect(not gap and len(batch.ends) == PARTITIONS, "no-gap", f"batch {run.batch}")
        batch.committed_at = run.driver.world.now
        self.committed = run.batch + 1
        return True
