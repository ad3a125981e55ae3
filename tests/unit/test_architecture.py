"""docs/architecture.md names every rule and room, and only files that there are."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_stream_provider.lifecycle.rules import RULES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text()


def test_every_rule_of_the_log_is_named_and_no_other() -> None:
    rules = TEXT.partition("### Rules")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+|complete|readable)`", rules))
    assert named == {rule.name for needed in RULES.values() for rule in needed}


def test_every_file_that_is_named_is_there() -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT):
        assert (ROOT / name).is_file() or (ROOT / "airflow_stream_provider" / name).is_file(), name
    # After a path, those beside it are named without their folder.
    there = {path.name for path in (ROOT / "airflow_stream_provider").rglob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", TEXT)) <= there


def test_every_room_of_the_package_is_named() -> None:
    rooms = TEXT.partition("## The rooms")[2].partition("\n## ")[0]
    there = {path.parent.name for path in (ROOT / "airflow_stream_provider").glob("*/__init__.py")}
    assert there <= set(re.findall(r"`(\w+)`", rooms))
