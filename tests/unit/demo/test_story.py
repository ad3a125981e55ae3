from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from demo.environment import DemoEnvironment, lay_out
from demo.report import Report
from demo.story import Story
from devstack.airflow_api import AirflowApi
from devstack.audit import Records
from devstack.workload import Total

DAGS = Path(__file__).parents[3] / "dags"
GOOD = Report([], {}, Records(10, 10, 0, 0, 0), max_holders=1, seconds_total=1.0, lag={})


@pytest.fixture
def story(tmp_path: Path) -> Story:
    lay_out(DAGS, tmp_path / "dags", brokers="127.0.0.1:1", data=tmp_path / "data", changes={})
    return Story(DemoEnvironment.at(tmp_path / "dags", AirflowApi("http://airflow", "admin", "x")), print, print)


def test_a_good_report_has_no_problems(story: Story) -> None:
    assert story.problems(GOOD) == []
    repeated = replace(GOOD, records=Records(10, 12, 0, 0, 2))
    assert story.problems(repeated) == [], "Spark repeats a batch after a failure"


def test_every_problem_is_a_sentence(story: Story) -> None:
    story.wrong_totals = {"customer-1": (Total(2, 20), Total(1, 10)), "customer-2": (Total(1, 5), None)}
    bad = replace(GOOD, records=Records(10, 12, 1, 3, 0), max_holders=2)
    assert story.problems(bad) == [
        "1 orders were lost.",
        "3 orders were duplicated without a failure.",
        "2 drivers held the stream at the same time.",
        f"2 customers have wrong totals: customer-1 has {Total(1, 10)}, expected {Total(2, 20)}.",
    ]
