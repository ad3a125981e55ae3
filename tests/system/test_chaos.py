"""Five minutes of faults on the whole stack, as `make chaos` does it: its own processes, its own namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.namespaces import needs_namespaces

ROOT = Path(__file__).parents[2]
KEYS = {
    *("seed", "minutes", "commit", "faults", "cells", "upgrades", "produced", "lost", "doubled", "doubled_unexplained"),
    *("max_holders", "illegal_records", "wrong_totals", "longest_recovery_seconds", "leftovers", "problems"),
    "longest_outage_seconds",
}


@needs_namespaces
def test_five_minutes_of_faults(tmp_path: Path) -> None:
    # Of the first seeds, the one whose plan soon meets several kinds of faults and kills the holder.
    command = [sys.executable, "-m", "chaos", "--minutes", "5", "--seed", "3", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report.keys() >= KEYS
    assert (report["seed"], report["minutes"], report["problems"]) == (3, 5.0, [])
    assert report["produced"] > 10_000
    assert (report["lost"], report["doubled_unexplained"], report["wrong_totals"]) == (0, 0, 0)
    assert (report["max_holders"], report["illegal_records"], report["leftovers"]) == (1, 0, 0)
    assert 0 < report["longest_recovery_seconds"] <= 180
    assert sum(report["faults"].values()) >= 3
    assert report["cells"]
    assert report["upgrades"]["good"] >= 1
    journal = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    begun = {entry["id"] for entry in journal if entry["what"] == "fault"}
    healed = {entry["id"] for entry in journal if entry["what"] == "healed"}
    assert begun == healed
    assert "make chaos MINUTES=5 SEED=3" in done.stdout
