"""One run: start everything, walk through the plan until the time is over, heal, drain, count, and end everything."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.checker import check
from chaos.faults import Nemesis
from chaos.journal import Journal
from chaos.matrix import add as add_cells
from chaos.matrix import planned
from chaos.plan import FILES, Cell
from chaos.producer import JOURNAL as PRODUCED
from chaos.producer import SurvivingProducer
from chaos.recorder import Evidence
from chaos.report import Report
from chaos.scenario import Person
from chaos.walk import Walk
from chaos.world import UPGRADE_DAG, World, world
from devstack.places import Pair

RATE = 200  # orders per second: two queries read each, on two cores that also run everything else
DRAIN_SECONDS = 240.0
# What is left of the minutes is too little for another scenario: they take 70 to 160 s.
LAST_SECONDS = 120.0
POLL_SECONDS = 1.0
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Run:
    """What is to be run, and where its results go.

    :param seed: the plan is drawn from it.
    :param minutes: how long faults happen; the start and the count come on top of it.
    :param rate: orders per second.
    :param cells_first: names of cells of the matrix that come before what the seed begins with.
    :param folder: folder of the run; its journal, the logs of all processes and the control log stay there.
    :param report: file of the report.
    :param say: called with a line for a person.
    :param pair: where the stream keeps its control log and its files.
    :param table: whether a third query writes into PostgreSQL.
    """

    seed: int
    minutes: float
    rate: int
    cells_first: Sequence[str]
    folder: Path
    report: Path
    say: Callable[[str], None]
    pair: Pair = FILES
    table: bool = False

    def carry_out(self) -> Report:
        """Run, and return the report, which is written, too.

        :raises StackError: the stack does not come up, or the first release cannot be deployed.
        """
        self.say(f"seed {self.seed}, {self.minutes:g} minutes, commit {self.commit}; again: {self.replay}")
        with (
            world(self.folder, self.pair, self.table) as found,
            contextlib.closing(Journal(self.folder / "journal.jsonl")) as journal,
        ):
            where = {"control": self.pair.control, "storage": self.pair.storage}
            journal.note("started", seed=self.seed, minutes=self.minutes, commit=self.commit, **where)
            report = self._with(found, journal)
        report.write(self.report)
        return report

    @functools.cached_property
    def commit(self) -> str:
        """The commit of this tree when the run began, with a + when files had changed since."""
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return found.stdout.strip() or "unknown"

    @property
    def cells(self) -> Path:
        """The file of the matrix over all runs."""
        return self.report.with_name("cells.json")

    @property
    def replay(self) -> str:
        """The line that runs the same again."""
        cells = f' CELLS="{",".join(self.cells_first)}"' if self.cells_first else ""
        where = f" CONTROL={self.pair.control} STORAGE={self.pair.storage}" if self.pair != FILES else ""
        where += " SINK=postgres" if self.table else ""
        made = f"make chaos MINUTES={self.minutes:g} SEED={self.seed} RATE={self.rate}{where}{cells}"
        return f"git checkout {self.commit} && {made}"

    def _with(self, found: World, journal: Journal) -> Report:
        producer = SurvivingProducer(found.brokers, "orders", self.rate, self.folder / PRODUCED)
        evidence = Evidence(found.brokers, found.checkpoints, found.releases, found.log, self.folder, found.table)
        nemesis = Nemesis(
            found.stack,
            found.open_log(),
            found.control,
            found.clocks,
            journal,
            self.say,
            found.storage.server,
            found.moved_checkpoints(),
        )
        with contextlib.ExitStack() as ending, evidence:
            ending.push(producer)
            self._prepare(found)
            with nemesis:
                self._go(Person(found, nemesis, journal, self.say, producer))
            self.say("the time is over; draining")
            producer.stop()
            self._drain(evidence, journal)
        self.say("counting")
        evidence.look()
        entries = journal.entries()
        add_cells(entries, seed=self.seed, commit=self.commit, pair=self.pair, path=self.cells)
        return check(evidence, entries, seed=self.seed, minutes=self.minutes, commit=self.commit, pair=self.pair)

    def _prepare(self, found: World) -> None:
        found.api.wait_for_dag(UPGRADE_DAG)
        for dag in found.api.call("GET", "dags")["dags"]:
            found.api.unpause(dag["dag_id"])

    def _go(self, person: Person) -> None:
        self.say("deploying the first release")
        person.deploy()
        until = time.monotonic() + self.minutes * 60 - LAST_SECONDS
        walk, missed = Walk(self.seed, planned(self.cells_first, self.pair), self.pair), set[Cell]()
        while time.monotonic() < until:
            missed = person.carry_out(walk.next(missed))
        person.finish()

    def _drain(self, evidence: Evidence, journal: Journal) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        while says := evidence.unread():
            if time.monotonic() > deadline:
                journal.problem(f"{DRAIN_SECONDS:.0f} s after the producer stopped, {says}")
                return
            time.sleep(POLL_SECONDS)
