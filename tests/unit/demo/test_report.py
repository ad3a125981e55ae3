from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.audit import Records
from demo.history import Change, StepResult
from demo.picture import draw
from demo.report import Report, Step, StepReport, describe, failure_times, steady

# One commit a second from 0 to 30, but 1.4 s around the hand-over at 10.2 and 3 s around the way back at 20.5.
TIMES = [float(s) for s in range(11)] + [11.4 + s for s in range(9)] + [22.4 + s for s in range(8)]
COMMITS = {"enrich": dict(enumerate(TIMES)), "totals": dict(enumerate(TIMES))}
CLEAN = {"enrich": "completed", "totals": "completed"}
THERE = Change(source="one", to="two", at=10.2, boundary=CLEAN)
BACK = Change(source="two", to="one", at=20.5, boundary={"enrich": "completed", "totals": "interrupted"})
STEPS = [
    Step("deploy 1", -5.0, 0.5, StepResult.DEPLOYED, [Change(source=None, to="one", at=-0.5)]),
    Step("upgrade to 2", 5.5, 25.0, StepResult.ROLLED_BACK, [THERE, BACK]),
]


def test_the_first_deployment_has_no_gap() -> None:
    assert describe(STEPS[0], COMMITS) == StepReport("deploy 1", "deployed", {}, {})


def test_of_two_changes_in_a_step_the_worse_counts() -> None:
    report = describe(STEPS[1], COMMITS)
    assert report.gap_seconds == pytest.approx({"enrich": 3.0, "totals": 3.0})
    assert report.boundary == {"enrich": "completed", "totals": "interrupted"}


def test_steady_is_what_lies_between_the_steps() -> None:
    assert steady(STEPS, COMMITS)["enrich"] == {"p50": 1.0, "p95": 1.0}


def test_only_a_change_that_was_not_clean_is_a_failure() -> None:
    assert failure_times([THERE, BACK], COMMITS["totals"]) == [(20.5, 22.4)]


def test_the_json_has_the_documented_keys(tmp_path: Path) -> None:
    steps = [describe(step, COMMITS) for step in STEPS]
    report = Report(steps, steady(STEPS, COMMITS), Records(10, 10, 0, 0, 0), max_holders=1, seconds_total=60.0, lag={})
    report.write(tmp_path / "demo" / "report.json")
    found = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert set(found) == {"steps", "steady_seconds", "records", "max_holders", "seconds_total", "lag"}
    assert set(found["steps"][0]) == {"name", "outcome", "gap_seconds", "boundary"}
    assert set(found["records"]) == {"produced", "delivered", "lost", "duplicated", "duplicated_by_failure"}
    assert found["steps"][1]["outcome"] == "rolled-back"


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw(tmp_path / "report.png", COMMITS, STEPS)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
