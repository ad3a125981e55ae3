"""Run many seeds over all cores: `python -m tests.support.simulation --seeds 200000`; see docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.simulation.bounds import BOUND, CANNOT_HAPPEN
from tests.support.simulation.one_seed import BOTH, STORES, simulate, simulate_one, store_of
from tests.support.simulation.protocol_state import STATES
from tests.support.simulation.result import Result

REPORT = Path("build/simulation/report.json")
PROGRESS_SECONDS = 10.0
FAILURES_SHOWN = 20
CHUNK = 20


class Tally:
    """What came of all seeds so far, over these stores."""

    def __init__(self, first: int, stores: str = BOTH) -> None:
        self.first = first
        self.stores = tuple(STORES) if stores == BOTH else (stores,)
        self.seeds = self.steps = self.batches = self.doubled = 0
        self.seconds = self.longest_recovery = 0.0
        self.cells: Counter[tuple[str, str, str]] = Counter()
        self.disasters: Counter[str] = Counter()
        self.acts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.failures: list[Result] = []
        self._began = time.monotonic()

    def add(self, result: Result) -> None:
        """Count one seed."""
        self.seeds += 1
        self.steps += result.steps
        self.batches += result.batches
        self.doubled += result.doubled
        self.seconds += result.seconds
        self.longest_recovery = max(self.longest_recovery, result.longest_recovery)
        self.cells.update({(result.store, *cell): count for cell, count in result.cells.items()})
        self.disasters.update(result.disasters)
        self.acts.update(result.acts)
        self.kinds.update(result.kinds)
        if result.broken:
            self.failures.append(result)

    @property
    def rate(self) -> float:
        """Seeds per second."""
        return self.seeds / max(1e-9, time.monotonic() - self._began)

    @property
    def empty(self) -> list[tuple[str, str, str]]:
        """The cells that can happen, and did not: by store, state and fault."""
        every = [(store, state, fault) for store in self.stores for fault in STORES[store].faults for state in STATES]
        return [cell for cell in every if not self.cells[cell] and cell[1:] not in CANNOT_HAPPEN]

    @property
    def unseen(self) -> list[tuple[str, str]]:
        """The states and faults of which no store has seen the one in the other."""
        counted = {cell[1:] for cell, count in self.cells.items() if count}
        return sorted({cell[1:] for cell in self.empty} - counted)

    def report(self) -> dict[str, Any]:
        """Return it all as JSON."""
        by_store = {
            store: {
                state: {fault: self.cells[store, state, fault] for fault in STORES[store].faults} for state in STATES
            }
            for store in self.stores
        }
        faults = sorted({fault for _, _, fault in self.cells})
        return {
            "first": self.first,
            "seeds": self.seeds,
            "seeds_per_second": round(self.rate, 1),
            "steps": self.steps,
            "virtual_hours": round(self.seconds / 3600, 1),
            "batches": self.batches,
            "doubled_explained": self.doubled,
            "bound_seconds": BOUND,
            "longest_recovery_seconds": round(self.longest_recovery, 1),
            "faults": {name: sum(n for cell, n in self.cells.items() if cell[2] == name) for name in faults},
            "disasters": dict(self.disasters),
            "cells": by_store,
            "cells_that_never_happened": [list(cell) for cell in self.empty],
            "acts": dict(self.acts),
            "records": dict(self.kinds),
            "failures": [
                {"seed": r.seed, "store": r.store, "invariant": r.broken, "found": r.found, "replay": replay(r)}
                for r in self.failures
            ],
        }


def replay(result: Result) -> str:
    """Return the line that runs one seed again and shows it."""
    return f"python -m tests.support.simulation --seed {result.seed} --store {result.store} --trace"


def results(seeds: Iterable[int], jobs: int, stores: str = BOTH) -> Iterator[Result]:
    """Run the seeds in so many processes."""
    each = partial(simulate_one, stores)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(each, seeds, chunksize=CHUNK)


def table(tally: Tally, store: str) -> str:
    """Return the counts by fault (rows) and state of the protocol (columns)."""
    faults = STORES[store].faults
    wide = max(map(len, faults))
    lines = [f"{store:<{wide}}" + "".join(f"{state[:9]:>10}" for state in STATES)]
    for fault in faults:
        counts = ("-" if (s, fault) in CANNOT_HAPPEN else str(tally.cells[store, s, fault]) for s in STATES)
        lines.append(f"{fault:<{wide}}" + "".join(f"{count:>10}" for count in counts))
    return "\n".join(lines)


def main() -> int:
    """Run it; return 1 when an invariant broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--store", choices=[*STORES, BOTH], default=BOTH, help="even seeds: files, odd ones: a topic")
    parser.add_argument("--trace", action="store_true", help="with --seed: show every fault and record")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        store = store_of(arguments.seed, arguments.store)
        result = simulate(arguments.seed, store, print if arguments.trace else None)
        print(result.found or f"Seed {result.seed}, {store}: every invariant holds.")
        return 1 if result.broken else 0
    tally, shown = Tally(arguments.first, arguments.store), time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for result in results(seeds, arguments.jobs, arguments.store):
        tally.add(result)
        if result.broken and len(tally.failures) <= FAILURES_SHOWN:
            print(f"BROKEN {result.found}\n  {replay(result)}", flush=True)
        if time.monotonic() > shown + PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{tally.seeds} seeds, {tally.rate:.0f} a second, {len(tally.failures)} broken", flush=True)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(tally.report(), indent=1) + "\n")
    for store in tally.stores:
        print(table(tally, store))
    print(
        f"{tally.seeds} seeds, {tally.rate:.0f} a second, {len(tally.failures)} broken; {len(tally.empty)} cells empty;"
    )
    print(f"longest recovery {tally.longest_recovery:.0f} s of {BOUND:.0f} s; see {REPORT}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
