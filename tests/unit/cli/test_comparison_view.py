"""What `airflow streams diff` shows, as text on a wide terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from airflow_stream_provider.cli.tables import comparison_view
from airflow_stream_provider.hooks.compare import Comparison, Difference
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamPhase
from tests.support.story import OLD_DEPLOYMENT, RUNNING, play

HELD = play(RUNNING).deployments[OLD_DEPLOYMENT]
SAME = Comparison("orders", StreamPhase.RUNNING, HELD, HELD.release)
NEW = Release("2", "b" * 64)


def shown(found: Comparison) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(comparison_view(found))
    return out.getvalue()


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (replace(SAME, phase=StreamPhase.STOPPED), "ran last; the stream is stopped now."),
        (replace(SAME, running=None), "orders: no release has ever run."),
        (replace(SAME, running=None), f"An upgrade would deploy release 1 ({HELD.release.hash[:12]})."),
        (replace(SAME, found=(Difference("cluster", "a", "b"),)), "the same release, with what the YAML says now."),
        (replace(SAME, wanted=NEW, problem="It is away."), "cannot be compared one by one: It is away."),
    ],
)
def test_the_sentences(found: Comparison, says: str) -> None:
    assert says in shown(found)


@pytest.mark.parametrize(
    ("difference", "row"),
    [
        (Difference("release", "a" * 64, "b" * 64), ["release", "a" * 12, "b" * 12]),
        (Difference("files.a.py", None, "b" * 64), ["files.a.py", "-", "b" * 12]),
        (Difference("arguments", ["--a", "b c"], None), ["arguments", "--a 'b c'", "-"]),
        (Difference("upgrade.lease_seconds", 30.0, 45), ["upgrade.lease_seconds", "30", "45"]),
        (Difference("upgrade.foreach_batch_safe", False, True), ["upgrade.foreach_batch_safe", "False", "True"]),
        (Difference("conf.x", "[red]", "\x1b]52;c;eA\x1b\\"), ["conf.x", "[red]", "\ufffd]52;c;eA\ufffd\\"]),
    ],
)
def test_a_row(difference: Difference, row: list[str]) -> None:
    text = shown(replace(SAME, found=(difference,)))
    (line,) = (line for line in text.splitlines() if line.startswith(f"│ {difference.field} "))
    assert [cell.strip() for cell in line.strip("│").split("│")] == row


def test_the_example_of_the_page_is_what_is_shown() -> None:
    held = replace(HELD, id="orders-2-0-0-1a2b3c4d", release=Release("2.0.0", "2f1d0c9b8a7e".ljust(64, "0")))
    found = (
        Difference("release", held.release.hash, "7a6b5c4d3e2f".ljust(64, "0")),
        Difference("version", "2.0.0", "2.1.0"),
        Difference("files.orders.py", "9c8b7a6f5e4d".ljust(64, "0"), "0a1b2c3d4e5f".ljust(64, "0")),
        Difference("conf.spark.executor.cores", None, "2"),
    )
    wanted = Release("2.1.0", str(found[0].yaml))
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    view = shown(Comparison("orders", StreamPhase.RUNNING, held, wanted, found))
    assert "".join(f"{line.rstrip()}\n" for line in view.splitlines()) in page, view
