"""The state tables of docs/concepts.md, generated from the enums; tests/support/reference.py writes them there."""

from __future__ import annotations

from enum import Enum

from airflow_stream_provider.lifecycle.state import IncarnationState, RequestStage, StreamPhase
from airflow_stream_provider.lifecycle.wish import Goal


def tables() -> str:
    """Return the tables as Markdown."""
    return "\n".join(
        [
            _table("The stream (`StreamPhase`)", StreamPhase),
            _table("A wish (`Goal`)", Goal, rest=True),
            _table("A driver (`IncarnationState`)", IncarnationState, terminal=True),
            _table("A request (`RequestStage`)", RequestStage, open=True),
        ]
    )


def _table(title: str, states: type[Enum], **flags: bool) -> str:
    names = "".join(f" {flag} |" for flag in flags)
    lines = [f"{title}:\n", f"| state |{names} means |", "|---|" + "---|" * (len(flags) + 1)]
    for state in states:
        said = "".join(f" {'yes' if getattr(state, flag) else 'no'} |" for flag in flags)
        lines.append(f"| `{state.value}` |{said} {state.description} |")  # type: ignore[attr-defined]
    return "\n".join([*lines, ""])
