"""What `airflow streams history` shows, as text on a wide terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from airflow_stream_provider.cli.tables import life_table
from airflow_stream_provider.monitoring.life import LifeEvent, What


def shown(*events: LifeEvent) -> str:
    out = io.StringIO()
    Console(file=out, width=220).print(life_table("orders", events))
    return out.getvalue()


def test_who_did_it_is_a_task_with_its_run_or_a_driver() -> None:
    text = shown(
        LifeEvent(1, What.DEPLOYED, 0.0, "airflow:orders__upgrade/manual__1/submit"),
        LifeEvent(2, What.ABORTED, 0.0, "driver:a.1", incarnation="b.2"),
        LifeEvent(3, What.STOOD_BY, 0.0, "driver:b.2", incarnation="b.2"),
        LifeEvent(4, What.UNKNOWN, 0.0, "airflow:newer"),
        LifeEvent(5, What.ILLEGAL),
    )
    rows = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if line.startswith("│")]
    assert [row[5] for row in rows] == ["orders__upgrade/submit", "manual__1", "a.1", "the driver", "newer", "?"]
    assert rows[-1][1] == "?"


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (LifeEvent(1, What.HANDED_OVER, free_seconds=1.25), "nobody for 1.2 s"),
        (LifeEvent(1, What.STARTED, free_seconds=3600.0), "nobody for 1 h"),
        (LifeEvent(1, What.HANDED_OVER, free_seconds=1.2, gap_seconds={"a": 2.0, "b": 3.0}), "a 2.0 s, b 3.0 s"),
        (LifeEvent(1, What.FENCED, reason="gone", evidence={"person": "ann"}), "gone (confirmed by ann)"),
        (LifeEvent(1, What.ADOPTED, reason="first", evidence={"job": "driver-1"}), "first (it was driver-1)"),
        (LifeEvent(1, What.FAILED, 1.0, reason="no column [b]x[/b]"), "no column [b]x[/b]"),
        (LifeEvent(1, What.FAILED, reason="\x1b]52;c;eA\x1b\\x"), "\ufffd]52;c;eA\ufffd\\x"),
    ],
)
def test_what_a_row_says(event: LifeEvent, says: str) -> None:
    assert says in shown(event)
    assert "\x1b" not in shown(event)


def test_a_person_is_named_with_the_command_that_he_gave() -> None:
    text = shown(
        LifeEvent(1, What.STOPPED, 0.0, "person:anna@edge1/2026-01-01T00:00:00.000000Z/restart.stop"),
        LifeEvent(2, What.STOPPED, 0.0, "person:anna"),
    )
    rows = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if line.startswith("│")]
    assert [row[5] for row in rows] == ["anna@edge1", "airflow streams restart", "anna"]
