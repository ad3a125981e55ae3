"""How every benchmark ends: a table on the terminal and `build/bench/NAME.json`, with the machine it ran on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    import pyspark

    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "load_average_before": os.getloadavg()[0],
        "command": " ".join(["python", *sys.argv]),
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return a sample's size, minimum, median, p95 and p99 (nearest rank), maximum, and the values themselves."""
    ordered = sorted(values)

    def percentile(percent: int) -> float:
        return round(ordered[max(0, -(-percent * len(ordered) // 100) - 1)], 4)

    return {
        "n": len(ordered),
        "min": round(ordered[0], 4),
        "p50": round(statistics.median(ordered), 4),
        "p95": percentile(95),
        "p99": percentile(99),
        "max": round(ordered[-1], 4),
        "values": [round(value, 4) for value in values],
    }


def show(name: str, sides: Mapping[str, Mapping[str, Any]], verdicts: Mapping[str, tuple[float, str, float]]) -> None:
    """Print a table of spreads, and one of targets, each met or missed.

    A missed one fails no run: how long something takes, the machine decides, too.

    :param verdicts: by name the number found, `<=` or `>=`, and the number wanted.
    """
    table = Table("side", "n", "min", "p50", "p95", "p99", "max", title=name)
    for side, found in sides.items():
        table.add_row(side, *(str(found[key]) for key in ("n", "min", "p50", "p95", "p99", "max")))
    targets = Table("target", "found", "wanted", "", title="targets")
    for target, (found_value, sign, wanted) in verdicts.items():
        met = found_value <= wanted if sign == "<=" else found_value >= wanted
        targets.add_row(target, f"{found_value:.3f}", f"{sign} {wanted}", "met" if met else "missed")
    Console(width=110).print(table, *([targets] if verdicts else []))


def show_counts(name: str, columns: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table of counts by kind, and their sums.

    :param columns: by name of the column the counts by kind; a kind may be missing.
    """
    table = Table("kind", *columns, title=name)
    kinds = sorted({kind for counts in columns.values() for kind in counts})
    for kind in kinds:
        table.add_row(kind, *(f"{counts.get(kind, 0.0):.2f}" for counts in columns.values()))
    table.add_section()
    table.add_row("all", *(f"{sum(counts.values()):.2f}" for counts in columns.values()))
    Console(width=110).print(table)


def write(name: str, body: Mapping[str, Any]) -> Path:
    """Write `build/bench/NAME.json` and return its path."""
    path = Path("build/bench") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=2) + "\n")
    print(f"wrote {path}")
    return path
