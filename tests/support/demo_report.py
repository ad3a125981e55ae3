"""What a report of the demo must say, wherever its story was told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = ["handed-over", "refused", "rolled-back"]


def check_report(folder: Path, first: str = "deployed") -> dict[str, Any]:
    """Check the report and the pictures in a folder, and return the report.

    :param first: result of the first step; the end of a job that is ``adopted`` may double its last batch.
    :raises AssertionError: an order was lost or doubled, two drivers held the stream, or something is missing.
    """
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    assert [step["result"] for step in report["steps"]] == [first, *RESULTS]
    assert set(report["steps"][1]["gap_seconds"]) == {"enrich", "totals"}
    assert report["steps"][1]["boundary"] == {"enrich": "completed", "totals": "completed"}
    records = report["records"]
    assert records["delivered"] == records["produced"] + records["duplicated_by_failure"] > 0
    assert records["lost"] == records["duplicated"] == 0
    assert first == "adopted" or not records["duplicated_by_failure"]
    assert report["max_holders"] == 1
    assert (folder / "report.png").stat().st_size > 10_000
    assert (folder / "lag.png").stat().st_size > 10_000
    assert set(report["lag"]["steps"]) == {step["name"] for step in report["steps"]}
    assert any(sample["queries"] for sample in report["lag"]["samples"])
    return report
