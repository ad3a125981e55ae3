"""The report of a run: `report.json`, and a table for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from devstack.places import FILE


def machine() -> str:
    """Return what the run depends on, in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.1f} GiB, {platform.system()} {platform.machine()}"


@dataclass(frozen=True)
class Report:
    """The contents of `report.json`; the fields are its keys, but for `explained`.

    :param minutes: how long faults were thrown at the stream.
    :param control: where the control log was: ``file`` or ``kafka``.
    :param storage: where checkpoints and releases were: ``file`` or ``hdfs``.
    :param faults: number of faults by kind.
    :param skipped: faults that were planned and did not happen, as their event did not come.
    :param cells: the cells of the matrix that happened, as ``state/process/fault``, each with how often.
    :param upgrades: number of upgrades by kind.
    :param operations: number of runs of the form, by what was asked for.
    :param produced: orders that the input topic has.
    :param lost: those that the output does not have.
    :param doubled: records of the output too many.
    :param doubled_unexplained: those of them whose batch nothing had cut off.
    :param max_holders: largest number of drivers that held the stream, or ran its queries, at the same time.
    :param illegal_records: records of the control log that broke a rule.
    :param wrong_totals: customers whose last totals are wrong.
    :param table_rows: rows of the table that the exactly-once sink fills; with `SINK=postgres`.
    :param table_lost: records of the input that it lacks.
    :param table_doubled: rows too many.
    :param longest_recovery_seconds: longest time from the end of the last fault to a holder that commits, and longest
        time without a commit of a query while no fault lasted.
    :param longest_outage_seconds: longest time from one commit of a query to its next, whatever the faults.
    :param leftovers: processes, clones and temporary files that were left.
    :param problems: a sentence for everything that is not as it must be; the run has failed when there is one.
    :param explained: a sentence for each batch whose orders were doubled, and each half-published release, with what
        cut it off.
    """

    seed: int
    minutes: float
    commit: str
    control: str = FILE
    storage: str = FILE
    machine: str = field(default_factory=machine)
    faults: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    cells: Mapping[str, int] = field(default_factory=dict)
    upgrades: Mapping[str, int] = field(default_factory=dict)
    operations: Mapping[str, int] = field(default_factory=dict)
    produced: int = 0
    lost: int = 0
    doubled: int = 0
    doubled_unexplained: int = 0
    max_holders: int = 0
    illegal_records: int = 0
    wrong_totals: int = 0
    table_rows: int = 0
    table_lost: int = 0
    table_doubled: int = 0
    longest_recovery_seconds: float = 0.0
    longest_outage_seconds: float = 0.0
    leftovers: int = 0
    problems: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = {name: value for name, value in asdict(self).items() if name != "explained"}
        path.write_text(json.dumps(contents, indent=2) + "\n")

    def table(self) -> Table:
        """Return it as a table, with what is explained."""
        table = Table("", "found", title=f"Seed {self.seed}, {self.minutes:g} minutes, commit {self.commit[:12]}")
        for name, value in asdict(self).items():
            if name in ("seed", "minutes", "commit", "problems", "explained"):
                continue
            shown = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
            if name == "cells":
                shown = len(value)
            table.add_row(name.replace("_", " "), str(shown))
        for says in self.explained:
            table.add_row("explained", escape(says))
        for problem in self.problems:
            table.add_row("[red]problem[/]", escape(problem))
        return table
