"""Each row of docs/guarantees.md names tests that hold it, and they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "guarantees.md"
ROWS = [
    line.strip("|").split(" | ")
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.endswith("| tests |")
]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)(?:\[([^]]+)\])?`")


def cases(test: ast.FunctionDef) -> set[str]:
    """Return what the parameters of a test are, each value by itself."""
    constants = (node for each in test.decorator_list for node in ast.walk(each) if isinstance(node, ast.Constant))
    return {str(node.value) for node in constants}


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip()[:60] for row in ROWS])
def test_a_row_names_tests_that_are_there(row: list[str]) -> None:
    named = NAMED.findall(row[-1])
    assert named, "name a test that fails when this is not kept"
    assert len(named) == row[-1].count("::")
    for path, name, case in named:
        tree = ast.parse((TESTS / path).read_text())
        found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        assert found, f"{path} has no {name}"
        assert not case or case in cases(found[0]), f"{path}::{name} has no case {case}"


def test_every_table_is_read() -> None:
    headings = [line for line in PAGE.read_text().splitlines() if line.endswith("| tests |")]
    assert len(headings) == PAGE.read_text().count("\n|---|") == 3
