"""The cells of the kill matrix: each task of each DAG of the runbook, and who is killed while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.support.fleet import Member


class Victim(StrEnum):
    """Who is killed, by SIGKILL."""

    WORKER = "worker"  # the process that runs the task, with Airflow's supervisor of it
    TRIGGERER = "triggerer"
    SCHEDULER = "scheduler"
    HOLDER = "holder"  # the driver that holds the stream at that moment
    STANDBY = "standby"  # the other drivers

    @property
    def of_airflow(self) -> bool:
        """Whether the stream itself is not touched."""
        return self in (Victim.WORKER, Victim.TRIGGERER, Victim.SCHEDULER)


@dataclass(frozen=True)
class Row:
    """A task, and the run in which it has something to do.

    :param verb: the end of the DAG's id.
    :param stream: how the stream is set up; see `Member`.
    :param conf: of the run.
    :param waits: the state in which it waits; empty: it does not wait long enough to be seen.
    :param answer: to all that the run asks.
    :param version: that holds when all is over; empty: nobody does, and no driver is left.
    :param ends: how the run ends where nobody is killed.
    :param nobody: victims of whom there is none while it runs.
    :param ended: victims whom the task itself ends: they are killed while it starts, as it does not wait long for them.
    :param lost: with these victims the run may fail, and the release before holds; a new run then goes well.
    :param cure: verb and conf of that new run, where it is another one.
    :param cuts: whether the run itself ends a holder by force, so that a batch may be written twice.
    """

    verb: str
    task: str
    stream: Mapping[str, Any] = field(default_factory=dict)
    conf: Mapping[str, Any] = field(default_factory=dict)
    waits: str = ""
    answer: str = "Approve"
    version: str = "2"
    ends: str = "success"
    nobody: frozenset[Victim] = frozenset()
    ended: frozenset[Victim] = frozenset()
    lost: frozenset[Victim] = frozenset()
    cure: tuple[str, Mapping[str, Any]] | None = None
    cuts: bool = False

    @property
    def name(self) -> str:
        """As tests are named."""
        return f"{self.verb}-{self.task}"


_HOLDER = frozenset({Victim.HOLDER})
_STANDBY = frozenset({Victim.STANDBY})
_DRIVERS = frozenset({Victim.HOLDER, Victim.STANDBY})
_UPGRADE: Mapping[str, Any] = {"verb": "upgrade", "conf": {"version": "2"}}
# While these run, the new release stands by: without it the upgrade fails, and the old one runs on.
_READY: Mapping[str, Any] = {**_UPGRADE, "lost": _STANDBY}
_SOAK: Mapping[str, Any] = {"soak": "15s"}
# A bad release, which the soak finds out.
_BAD: Mapping[str, Any] = {**_UPGRADE, "version": "1", "ends": "failed"}


# Nobody has deployed it, and no job runs beside it: what watches a job's logs is Spark's half of the driver.
_ADOPTED: Mapping[str, Any] = {"stream": {"releases": 0}, "nobody": _HOLDER, "lost": _STANDBY}


def _operate(task: str, operation: str, version: str = "1", **more: Any) -> Row:
    conf = {"operation": operation, "reason": "a cell of the matrix", "ask": task == "confirm"}
    return Row("operate", task, conf=conf, version=version, **more)


ROWS = (
    Row(task="check", stream={"releases": 2}, **_UPGRADE),
    Row(task="submit", waits="deferred", **_READY),
    Row(task="judge", **_READY),
    Row(task="approve", stream={"more": "  approval: true\n"}, waits="deferred", **_READY),
    Row(task="hand_over", verb="upgrade", conf={"version": "2"}, lost=_DRIVERS),
    # The new release is found to be at fault when it dies: it is taken back, and may be tried again.
    Row(
        task="soak",
        stream=_SOAK,
        waits="deferred",
        verb="upgrade",
        conf={"version": "2"},
        lost=_HOLDER,
    ),
    Row(task="retire", **_UPGRADE),
    Row(task="report", **_UPGRADE),
    Row(task="roll_back", stream={"behaviour": "die-running"}, **_BAD),
    _operate("look", "roll-back", "0", stream={"releases": 2}),
    _operate("confirm", "roll-back", "0", stream={"releases": 2}, waits="awaiting_input"),
    _operate("stop", "stop", "", nobody=_STANDBY, ended=_HOLDER),
    _operate("roll-back", "roll-back", "0", stream={"releases": 2}),
    _operate("abort", "abort", stream={"standby": True}),
    _operate("fence", "fence", waits="deferred", nobody=_STANDBY, ended=_HOLDER, cuts=True),
    _operate(
        "promote",
        "promote",
        "s",
        stream={"standby": True},
        lost=_DRIVERS,
        cure=("upgrade", {"version": "s"}),
    ),
    _operate("start", "start", stream={"releases": 0}, waits="deferred", nobody=_HOLDER),
    _operate("restart", "restart", waits="deferred", nobody=_STANDBY, ended=_HOLDER),
    _operate("retire", "retire", "", nobody=_STANDBY, ended=_HOLDER),
    # What it starts goes on by itself.
    _operate("upgrade", "upgrade", "2", stream={"wanted": "2"}, nobody=_STANDBY),
    _operate("stand_by", "adopt", waits="deferred", **_ADOPTED),
    _operate("job_ended", "adopt", waits="deferred", **_ADOPTED),
    # It hardly waits where no job has left logs: who stands by holds a moment later.
    _operate("adopt", "adopt", **_ADOPTED),
    _operate("discard", "adopt", "", answer="Reject", ends="failed", **_ADOPTED),
    _operate("tell", "roll-back", "0", stream={"releases": 2}),
    Row("retire", "retire", stream={"releases": 2}, version="1"),
    # Its holder is dead already, and nobody stands by until it has started one. The watch runs it once more.
    Row("revive", "revive", waits="deferred", version="1", nobody=_HOLDER, lost=_STANDBY, cuts=True),
)

# Tasks without a row: the look of the watch is killed in `test_scheduled_watch.py`, and what it triggers is `revive`.
# A trial changes nothing that runs: a driver that is left of it is ended by `abort`.
LEFT_OUT = ("watch-look", "watch-revive", "trial-trial")


@dataclass(frozen=True)
class Cell:
    """A task, and who is killed while it runs."""

    row: Row
    victim: Victim

    @property
    def name(self) -> str:
        """As tests are named."""
        return f"{self.row.name}-{self.victim.value}"

    @property
    def states(self) -> frozenset[str]:
        """The states of the task in which the victim is killed."""
        if self.victim is Victim.WORKER or not self.row.waits or self.victim in self.row.ended:
            return frozenset({"running"})
        return frozenset({self.row.waits})

    def member(self, number: int) -> Member:
        """Return the stream of this cell."""
        return Member(f"c{number}", **self.row.stream)


CELLS = tuple(Cell(row, victim) for victim in Victim for row in ROWS if victim not in row.nobody)
