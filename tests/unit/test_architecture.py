"""docs/architecture.md is true: its tables, and the files that it names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.state_tables import PAGE, page

ROOT = Path(__file__).parents[2]


def test_the_state_tables_are_those_of_the_enums() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.support.state_tables"


def test_every_file_that_is_named_is_there() -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE.read_text()):
        assert (ROOT / name).is_file() or (ROOT / "airflow_stream_provider" / name).is_file(), name
    # After a path, those beside it are named without their folder.
    there = {path.name for path in (ROOT / "airflow_stream_provider").rglob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", PAGE.read_text())) <= there
