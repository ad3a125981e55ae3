from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.report import Report, StepReport, describe, failure_times, steady
from devstack.audit import Records
from tests.support.demo_steps import BACK, COMMITS, STEPS, THERE


def test_the_first_deployment_has_no_gap() -> None:
    assert describe(STEPS[0], COMMITS) == StepReport("deploy 1", "deployed", {}, {})


def test_of_two_changes_in_a_step_the_larger_gap_counts() -> None:
    report = describe(STEPS[1], COMMITS)
    assert report.gap_seconds == pytest.approx({"enrich": 3.0, "totals": 3.0})
    assert report.boundary == {"enrich": "completed", "totals": "interrupted"}


def test_steady_intervals_are_between_the_steps() -> None:
    assert steady(STEPS, COMMITS)["enrich"] == {"p50": 1.0, "p95": 1.0}


def test_only_an_interrupted_change_is_a_failure() -> None:
    assert failure_times([THERE, BACK], COMMITS["totals"]) == [(20.5, 22.4)]


def test_the_json_has_the_documented_keys(tmp_path: Path) -> None:
    steps = [describe(step, COMMITS) for step in STEPS]
    report = Report(steps, steady(STEPS, COMMITS), Records(10, 10, 0, 0, 0), max_holders=1, seconds_total=60.0, lag={})
    report.write(tmp_path / "demo" / "report.json")
    found = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert set(found) == {"steps", "steady_seconds", "records", "max_holders", "seconds_total", "lag", "timeline"}
    assert set(found["steps"][0]) == {"name", "result", "gap_seconds", "boundary"}
    assert set(found["records"]) == {"produced", "delivered", "lost", "duplicated", "duplicated_by_failure"}
    assert found["steps"][1]["result"] == "rolled-back"
