"""The output of `airflow streams diff`."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table

from airflow_stream_provider.cli.tables import add_row, as_text
from airflow_stream_provider.hooks.compare import Comparison
from airflow_stream_provider.lifecycle.state import StreamPhase

# As many digits of a hash tell two releases apart; JSON has all of them.
_DIGITS = 12
_RUNS = (StreamPhase.RUNNING, StreamPhase.HANDING_OVER, StreamPhase.STOPPING)


def comparison_view(found: Comparison) -> RenderableType:
    """Return what is compared, one row for each difference, and what an upgrade would do."""
    parts: list[RenderableType] = [as_text(_compared(found), "bold")]
    if found.found:
        columns = (Column(name, overflow="fold") for name in ("field", "running", "YAML"))
        table = Table(*columns)
        for each in found.found:
            add_row(table, each.field, _value(each.field, each.running), _value(each.field, each.yaml))
        parts.append(table)
    if found.problem:
        parts.append(as_text(f"Its files cannot be compared one by one: {found.problem}", "yellow"))
    return Group(*parts, as_text(_upgrade(found)))


def _compared(found: Comparison) -> str:
    held = found.running
    if held is None:
        return f"{found.stream}: no release has ever run."
    how = "runs" if found.phase in _RUNS else f"ran last; the stream is {found.phase.value} now"
    return f"{found.stream}: release {held.release.version} ({held.id}) {how}."


def _upgrade(found: Comparison) -> str:
    if found.new_release:
        return f"An upgrade would deploy release {found.wanted.version} ({found.wanted.hash[:_DIGITS]})."
    if found.found:
        return "An upgrade would deploy the same release, with what the YAML says now."
    return "The YAML says what runs: an upgrade would change nothing."


def _value(field: str, value: Any) -> str:
    if value is None:
        return "-"
    if field == "release" or field.startswith("files."):
        return str(value)[:_DIGITS]
    return shlex.join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
