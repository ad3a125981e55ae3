"""What the documents say about versions of Spark is what ran."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_stream_provider.spec.spark_versions import TRIED
from tests.support import spark_matrix
from tests.support.spark_matrix import PAGE, RESULTS, ROOT, minor, summed_up, table, with_table

FOUND = json.loads(RESULTS.read_text())


def test_the_table_is_what_ran() -> None:
    assert table(FOUND) in PAGE.read_text()
    assert with_table(PAGE.read_text(), FOUND) == PAGE.read_text(), "`make spark-matrix` writes it"


def test_a_version_is_tried_once_drivers_handed_over_on_it_and_nothing_failed() -> None:
    fine = [each for each in FOUND if not each["failed"] and "test_hand_over.py" not in each["not_run"]]
    lanes = re.findall(r"^SPARK_VERSIONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert [minor(each["version"]) for each in fine] == [minor(each) for each in lanes] == [*map(minor, TRIED)]
    assert all(f"{TRIED[0]} to {TRIED[-1]}" in page.read_text() for page in (PAGE, ROOT / "README.md"))


def test_runs_add_up_and_say_why_tests_were_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_matrix, "RAN", tmp_path)
    given = [SimpleNamespace(nodeid=f"a/test_scripts.py::{n}", longrepr=("", 1, "Skipped: no")) for n in "123"]
    for stats in ({"skipped": given[:1], "passed": given[1:]}, {"passed": given[1:2], "error": given[1:2]}):
        spark_matrix.pytest_terminal_summary(SimpleNamespace(stats=stats))
    found = summed_up(json.loads(next(tmp_path.iterdir()).read_text()))
    assert (found["passed"], found["failed"], found["skipped"], found["reasons"]) == (1, 1, 1, {"no": 1})
