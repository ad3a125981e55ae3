"""What the tables show, as text on a wide terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from airflow_stream_provider.cli.status import Code, StreamStatus
from airflow_stream_provider.cli.tables import PARTITIONS, lag_view, samples_table, status_table
from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits, LagLook, Streaks
from airflow_stream_provider.lag.report import Ceilings, LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from tests.support.lag_reports import partition, report


def shown(table: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=220).print(table)
    return out.getvalue()


def row(text: str, of: str) -> list[str]:
    """The cells of the row that begins with a word."""
    line = next(line for line in text.splitlines() if line.strip("│| ").startswith(of))
    return [cell.strip() for cell in line.strip("│").split("│")]


def lag(look: LagLook) -> str:
    return shown(lag_view("orders", look, look.judge(LagLimits(max_records=10)), Ceilings()))


def test_a_lag_is_shown_with_its_query_partitions_and_reasons() -> None:
    text = lag(LagLook.of(report(partition(11), partition(None, 1, None), seconds=75.0)))
    assert text.startswith("orders: FAIL\n")
    assert row(text, "enrich")[:4] == ["enrich", "UNKNOWN", "11", "1 min 15 s"]
    unknown, known = (line for line in text.splitlines() if line.startswith("│ t "))
    assert [cell.strip() for cell in known.strip("│").split("│")][:7] == [
        "t",
        "0",
        "ok",
        "OK",
        "9989",
        "10000",
        "11",
    ]
    assert [cell.strip() for cell in unknown.strip("│").split("│")][1:7] == ["1", "no_leader", "?", "5", "?", "?"]
    assert "enrich is behind by 11 records; 10 are allowed." in text


def test_a_lag_that_could_not_be_measured_is_its_reason() -> None:
    text = lag(LagLook.failed(StreamError("Kafka does not answer.")))
    assert text.split("\n")[:2] == ["orders: UNKNOWN", "Kafka does not answer."]


@pytest.mark.parametrize(("count", "more"), [(PARTITIONS, None), (PARTITIONS + 1, "1 partitions with less lag")])
def test_the_partitions_furthest_behind_are_shown_and_the_others_counted(count: int, more: str | None) -> None:
    text = lag(LagLook.of(report(*(partition(n, n) for n in range(count)))))
    rows = [line.split("│")[2].strip() for line in text.splitlines() if line.startswith("│ t ")]
    assert rows == [str(n) for n in range(count - 1, count - 1 - PARTITIONS, -1)]
    assert ("are not shown" in text) is (more is not None)
    assert (more or "") in text


def test_the_judgement_gives_the_colour() -> None:
    out = io.StringIO()
    look = LagLook.failed(StreamError("Away."))
    judged = LagJudgement(Health.FAIL, ("It is late.",))
    Console(file=out, width=80, force_terminal=True, color_system="standard").print(
        lag_view("s", look, judged, Ceilings())
    )
    assert out.getvalue().count("\x1b[1;31m") == 1
    assert "\x1b[31mIt is late." in out.getvalue()


def sample(**more: Any) -> LagSample:
    queries = {"a": QuerySample(1200, 75.0, "WARN", ("retention",)), "b": QuerySample(None, None, "")}
    return LagSample(**{"at": 1000.0, "phase": "running", "version": "2", "queries": queries, **more})


def test_each_stream_is_a_row_and_its_problem_a_line_below() -> None:
    lines = [
        StreamStatus("orders", "running", "2", sample(), code=Code.WARN, silent_seconds=2.0),
        StreamStatus("quiet", "silent", "2", sample(), code=Code.BAD, silent_seconds=2400.0),
        StreamStatus("broken", problem="line 3: this is not YAML."),
    ]
    text = shown(status_table(lines, 1090.0))
    assert row(text, "orders") == [
        "orders",
        "running",
        "2 s ago",
        "2",
        "1,200",
        "1 min 15 s",
        "WARN, retention",
        "1 min 30 s ago",
    ]
    assert row(text, "quiet")[:4] == ["quiet", "silent for 40 min", "40 min ago", "2"]
    assert row(text, "broken")[:8] == ["broken", "?", "?", "-", "?", "?", "?", "never"]
    assert text.rstrip().endswith("broken: line 3: this is not YAML.")


def test_without_streams_there_is_a_head() -> None:
    assert "measured" in shown(status_table([], 0.0))


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ({}, ""),
        ({"problem": "Kafka does not answer."}, "Kafka does not answer."),
        (
            {
                "problem": "Kafka does not answer.",
                "incidents": {
                    "lag": IncidentState(Streaks(), Incident("orders-2", 1.0)),
                    "down": IncidentState(Streaks(), Incident("orders-1", 1.0)),
                    "late": IncidentState(Streaks(), None),
                },
            },
            "orders-1, orders-2",
        ),
    ],
)
def test_a_sample_shows_what_was_open_or_else_the_problem(more: dict[str, Any], last: str) -> None:
    text = shown(samples_table("orders", [sample(version="", **more)]))
    cells = row(text, "1970")
    assert cells[1:7] == ["running", "?", "-", "1,200", "1 min 15 s", "WARN, retention"]
    assert cells[7] == last


def test_a_sample_does_not_call_a_silent_driver_running() -> None:
    text = shown(samples_table("orders", [sample(phase="silent", silent_seconds=2400.0)]))
    assert row(text, "1970")[1:3] == ["silent for 40 min", "40 min ago"]


def test_samples_are_oldest_first() -> None:
    text = shown(samples_table("orders", [sample(at=1000.0, phase="running"), sample(at=2000.0, phase="stopped")]))
    assert text.index("running") < text.index("stopped")
    assert Verdict.OK.value not in text


# Names and texts of scripts, drivers and Kafka. The second would end the command, the third sets a clipboard.
@pytest.mark.parametrize(
    ("said", "is_shown"),
    [
        ("orders[eu]", "orders[eu]"),
        ("totals [/day]", "totals [/day]"),
        ("\x1b]52;c;eA\x1b\\x", "\ufffd]52;c;eA\ufffd\\x"),
    ],
)
def test_what_others_say_is_shown_as_they_say_it_and_steers_no_terminal(said: str, is_shown: str) -> None:
    found = QueryLag(said, (PartitionLag(said, 0, PartitionState.OK, committed=3, log_start=0, end=9),))
    failing = LagJudgement(Health.FAIL, (said,))
    views = (
        lag_view(said, LagLook.of(LagReport(1.0, (found,))), failing, Ceilings()),
        status_table([StreamStatus(said, said, said, sample(), problem=said)], 1090.0),
        samples_table(said, [sample(phase=said, version=said, problem=said)]),
    )
    for view, count in zip(views, (5, 5, 4), strict=True):
        text = shown(view)
        assert text.count(is_shown) == count, text
        assert "\x1b" not in text
