"""docs/architecture.md is true: its tables, the files it names, and the paths that it follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.state_tables import PAGE, page

ROOT = Path(__file__).parents[2]
# A path in the section "Followed file by file": a heading, then numbered stops that each begin with a file.
PATHS = re.findall(
    r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE.read_text().partition("## Followed file by file")[2], re.M | re.S
)


def test_the_state_tables_are_those_of_the_enums() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.support.state_tables"


def test_every_file_that_is_named_is_there() -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE.read_text()):
        assert (ROOT / name).is_file() or (ROOT / "airflow_stream_provider" / name).is_file(), name
    # After a path, those beside it are named without their folder.
    there = {path.name for path in (ROOT / "airflow_stream_provider").rglob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", PAGE.read_text())) <= there


def test_two_paths_are_followed() -> None:
    assert [title for title, _ in PATHS] == ["An upgrade with a hand-over", "A lag sample"]


@pytest.mark.parametrize(("title", "text"), PATHS, ids=[title for title, _ in PATHS])
def test_a_path_has_few_stops_and_visits_none_twice_without_a_reason(title: str, text: str) -> None:
    stops = re.findall(r"^(\d+)\. `([\w/]+\.py)`(.*(?:\n   .*)*)", text, re.M)
    assert [int(number) for number, _, _ in stops] == list(range(1, len(stops) + 1))
    assert len(stops) <= 35
    seen = set()
    for _, name, said in stops:
        assert name not in seen or "again, because" in said, name
        seen.add(name)
