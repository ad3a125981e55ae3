"""The errors of this package: the next step is part of the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import airflow_stream_provider
from airflow_stream_provider.lifecycle.errors import StreamError

ROOT = Path(airflow_stream_provider.__file__).parent


def test_the_next_step_ends_the_text() -> None:
    error = StreamError("There is no session.", next_step="Create one.", host="spark")
    assert str(error) == "There is no session. Create one."
    assert (error.message, error.next_step, error.fields) == (
        "There is no session.",
        "Create one.",
        {"host": "spark"},
    )


def test_no_call_passes_the_next_step_under_its_old_name() -> None:
    """`StreamError` takes any keyword as a field; a misnamed next step would never be shown."""
    assert next(calls_with("next_step")), "the search finds nothing at all"
    assert list(calls_with("todo")) == []


def calls_with(keyword: str) -> Iterator[str]:
    texts = {path: path.read_text() for path in sorted(ROOT.rglob("*.py"))}
    return (
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in texts.items()
        if keyword in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and any(given.arg == keyword for given in node.keywords)
    )
