from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from chaos.report import Report

# The keys that are promised, and what the run depends on.
KEYS = (
    *(
        "seed",
        "minutes",
        "faults",
        "skipped",
        "cells",
        "upgrades",
        "operations",
        "produced",
        "lost",
        "doubled",
        "doubled_unexplained",
    ),
    *("max_holders", "illegal_records", "wrong_totals", "longest_recovery_seconds", "leftovers", "problems"),
    "longest_outage_seconds",
    *("commit", "control", "storage", "machine"),
)
REPORT = Report(
    seed=7,
    minutes=5.0,
    commit="abc",
    faults={"kill": 3},
    cells={"running/holder/kill": 3},
    problems=("[lost] 1",),
    explained=("4 orders",),
)


def test_the_file_has_exactly_the_keys_that_are_promised(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    REPORT.write(path)
    written = json.loads(path.read_text())
    assert sorted(written) == sorted(KEYS)
    assert (written["seed"], written["faults"], written["problems"]) == (7, {"kill": 3}, ["[lost] 1"])


def test_the_table_shows_counts_and_problems() -> None:
    shown = io.StringIO()
    Console(width=120, file=shown).print(REPORT.table())
    text = shown.getvalue()
    assert "Seed 7, 5 minutes, commit abc" in text
    assert "kill 3" in text
    assert "[lost] 1" in text
    assert "4 orders" in text
