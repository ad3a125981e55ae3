"""What a report of the demo must say, wherever its story was told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = ["deployed", "handed-over", "refused", "rolled-back"]


def check_report(folder: Path) -> dict[str, Any]:
    """Check the report and the pictures in a folder, and return the report.

    :raises AssertionError: an order was lost or doubled, two drivers held the stream, or something is missing.
    """
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    assert [step["result"] for step in report["steps"]] == RESULTS
    assert set(report["steps"][1]["gap_seconds"]) == {"enrich", "totals"}
    assert report["steps"][1]["boundary"] == {"enrich": "completed", "totals": "completed"}
    assert report["records"]["produced"] == report["records"]["delivered"] > 0
    assert report["records"]["lost"] == report["records"]["duplicated"] == 0
    assert report["max_holders"] == 1
    assert (folder / "report.png").stat().st_size > 10_000
    assert (folder / "lag.png").stat().st_size > 10_000
    assert set(report["lag"]["steps"]) == {step["name"] for step in report["steps"]}
    assert any(sample["queries"] for sample in report["lag"]["samples"])
    return report
