"""Which faults have struck which process in which state of the protocol, over all runs: `python -m chaos.matrix`.

A cell is ``state/process/fault``. Faults of a process count as kill or freeze of it. A fault of the control folder
counts for every process that uses the folder then: a folder that hangs or is away as a slow store, one that is full or
read-only as a full disk. Torn heartbeats and clocks that jump have no column. In `released` the holder is the driver
that has released.

Runs with the control log in Kafka, or the files on HDFS, have a matrix of their own, which need not be full.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.plan import FILES, PROCESSES, STORAGE, Cell
from chaos.states import DOWN, RUNNING, STATES
from devstack.errors import StackError
from devstack.places import FILE, HDFS, Pair

CELLS = Path("build/chaos/cells.json")
FAULTS = ("kill", "freeze", "slow store", "full disk")
COLUMN_OF = {
    **{"kill": "kill", "freeze": "freeze", "hang": "slow store", "away": "slow store"},
    **{"full": "full disk", "read_only": "full disk"},
}
"""The column of each kind of fault that has one."""
TASK_SECONDS = 20.0
"""A fault of the folder that is shorter may miss every task and the triggerer, so it does not count for them: the watch
of a run looks every 20 s."""

_STORE = ("slow store", "full disk")

IMPOSSIBLE: Sequence[tuple[Iterable[str], Iterable[str], Iterable[str], str]] = (
    ((DOWN,), ("holder", "holder_python"), FAULTS, "nobody holds the stream"),
    ((RUNNING,), ("standby", "standby_python"), FAULTS, "there is no standby"),
    (STATES, ("holder_python", "standby_python"), _STORE, "only a driver's Python uses the folder: see its driver"),
    (STATES, ("executor", "worker", "master", "broker", "scheduler"), _STORE, "it does not use the control folder"),
    ((RUNNING,), ("triggerer",), _STORE, "it uses the folder only while a run waits for a driver"),
)
"""Cells that cannot exist, as states, processes, faults and the reason."""
IN_KAFKA = (
    "the control log is in Kafka, where it hangs or is away with the broker, and is never full or read-only alone"
)
"""Why there is no folder that could fail."""


def cell(state: str, process: str, fault: str) -> str:
    """Return the name of a cell."""
    return f"{state}/{process}/{fault}"


def processes_of(pair: Pair) -> tuple[str, ...]:
    """Return the processes of the runs of a pair: with HDFS there is the storage, too."""
    return (*PROCESSES, STORAGE) if pair.storage == HDFS else PROCESSES


def impossible(pair: Pair = FILES) -> dict[str, str]:
    """Return the cells that cannot exist, each with the reason."""
    found: dict[str, str] = {}
    of_pair: list[tuple[Iterable[str], Iterable[str], Iterable[str], str]] = []
    if pair.control != FILE:
        of_pair.append((STATES, processes_of(pair), _STORE, IN_KAFKA))
    if pair.storage == HDFS:
        of_pair += [
            (STATES, (STORAGE,), ("kill",), "its one process has all that there is, and would lose it"),
            (STATES, (STORAGE,), _STORE, "it does not use the control folder"),
        ]
    for states, processes, faults, why in (*of_pair, *IMPOSSIBLE):
        for name in (cell(s, p, f) for s in states for p in processes for f in faults):
            found.setdefault(name, why)
    return found


def possible(pair: Pair = FILES) -> list[str]:
    """Return the cells that can exist, in the order of the states."""
    never = impossible(pair)
    every = (cell(s, p, f) for s in STATES for p in processes_of(pair) for f in FAULTS)
    return [name for name in every if name not in never]


def cells_of(journal: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the cells that a run's faults have filled, each with how often; none that came between two states."""
    found: Counter[str] = Counter()
    lines = list(journal)
    users = {line["id"]: line.get("users", ()) for line in lines if line["what"] == "healed"}
    for line in lines:
        column = COLUMN_OF.get(line["kind"]) if line["what"] == "fault" else None
        if column is None or line.get("between"):
            continue
        state = line["state"]
        struck = _users(line, users.get(line["id"], ())) if line["target"] == "control" else [line["target"]]
        found.update(cell(state, process, column) for process in struck)
    return dict(found)


def _users(fault: Mapping[str, Any], lived: Iterable[str]) -> list[str]:
    """Return the processes that a fault of the control folder strikes: drivers that were there, triggerer and task.

    :param lived: those that lived at some time while it lasted.
    """
    never, state = impossible(), fault["state"]
    waiting = [name for name in ("triggerer", "task") if name in lived and fault["seconds"] >= TASK_SECONDS]
    return [name for name in (*fault["drivers"], *waiting) if cell(state, name, "slow store") not in never]


def add(
    journal: Sequence[Mapping[str, Any]], *, seed: int, commit: str, pair: Pair = FILES, path: Path = CELLS
) -> dict[str, int]:
    """Add a run's cells to those of the earlier ones, in place of those of the same seed, commit and pair.

    :return: all cells that ever happened with this pair, with how often.
    """
    runs = [run for run in _runs(path) if (run["seed"], run["commit"], _pair_of(run)) != (seed, commit, pair)]
    where = {"control": pair.control, "storage": pair.storage}
    runs.append({"seed": seed, "commit": commit, **where, "cells": cells_of(journal)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(runs, indent=2) + "\n")
    return happened(path, pair)


def happened(path: Path = CELLS, pair: Pair = FILES) -> dict[str, int]:
    """Return the cells that happened in any run of this pair, with how often; {} when there was none yet."""
    found: Counter[str] = Counter()
    for run in _runs(path):
        if _pair_of(run) == pair:
            found.update(run["cells"])
    return dict(found)


def planned(names: Iterable[str], pair: Pair = FILES) -> list[Cell]:
    """Return the cells of a plan that fill these cells of the matrix.

    :raises StackError: there is no such cell.
    """
    kinds = {"slow store": ("control", "hang"), "full disk": ("control", "full")}
    found = []
    for name in names:
        if name not in possible(pair):
            raise StackError(
                f"{name!r} is no cell of the matrix.", next_step="Run `python -m chaos.matrix`: state/process/fault."
            )
        state, process, fault = name.split("/")
        found.append(Cell(state, *kinds.get(fault, (process, fault))))
    return list(dict.fromkeys(found))


def empty(found: Mapping[str, int], pair: Pair = FILES) -> list[str]:
    """Return the cells that can exist and never happened."""
    return [name for name in possible(pair) if not found.get(name)]


def tables(found: Mapping[str, int], pair: Pair = FILES) -> list[Table]:
    """Return one table for each fault, with the states side by side."""
    never = impossible(pair)
    made = []
    for fault in FAULTS:
        table = Table(fault, *STATES)
        for process in processes_of(pair):
            names = [cell(state, process, fault) for state in STATES]
            shown = [str(found[n]) if found.get(n) else "-" if n in never else "[red]never[/]" for n in names]
            if set(shown) != {"-"}:
                table.add_row(process, *shown)
        if table.row_count:
            made.append(table)
    return made


def main() -> int:
    """Print the cells of all runs; return 1 when one that can exist never happened, of those with all in folders."""
    pairs = Counter(map(_pair_of, _runs(CELLS)))
    console = Console(width=120)
    for pair in sorted(pairs.keys() - {FILES}, key=str):
        _show(console, pair, pairs[pair])
        left = empty(happened(CELLS, pair), pair)
        console.print(f"{len(left)} of {len(possible(pair))} cells never happened with {pair}, which is no failure.\n")
    _show(console, FILES, pairs[FILES])
    left = empty(happened(CELLS))
    if left:
        console.print(f"{len(left)} of {len(possible())} cells never happened. Run another seed that begins with them:")
        console.print(f'make chaos MINUTES=60 SEED=1 CELLS="{",".join(left)}"', soft_wrap=True)
    return 1 if left else 0


def _show(console: Console, pair: Pair, runs: int) -> None:
    console.print(*tables(happened(CELLS, pair), pair))
    console.print(f"{runs} runs with {pair}. '-' cannot exist:")
    for why in dict.fromkeys(impossible(pair).values()):
        console.print(f"  {why}")


def _pair_of(run: Mapping[str, Any]) -> Pair:
    # The first runs did not say it.
    return Pair(run.get("control", FILE), run.get("storage", FILE))


def _runs(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())) if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
