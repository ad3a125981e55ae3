"""The message that people get."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.monitoring.alert import Alert, growth
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind

AT = 1_700_000_000.0


def alert(**more: Any) -> Alert:
    given = {"open": True, "records": 12_000, "seconds": 300.0, "growth": 20.0, "reasons": ("It is late.",), **more}
    return Alert("orders", IncidentKind.LAG, "orders-1", since=AT - 720, at=AT, **given)


def test_the_message_says_what_since_when_how_fast_and_how_it_will_end() -> None:
    found = alert(deleted_in=7200.0, links={"Spark UI": "http://spark:4040"})
    assert found.subject == "orders is behind Kafka: 12,000 records, 5 min"
    assert found.text.splitlines() == [
        "It is late.",
        "Since: 2023-11-14 22:01 UTC (12 min ago).",
        "Pace: growing by 1,200 records a minute.",
        "Outlook: Kafka will delete, from 2023-11-15 00:13 UTC on, unread records (2 h left); "
        "raise the topic's retention first.",
        "Spark UI: http://spark:4040",
        "Look: airflow streams lag orders",
        "Incident: orders-1",
    ]


@pytest.mark.parametrize(
    ("more", "pace", "outlook"),
    [
        (
            {"growth": -20.0},
            "shrinking by 1,200 records a minute",
            "caught up at about 2023-11-14 22:23 UTC (10 min left)",
        ),
        ({"growth": -20.0, "deleted_in": 700.0}, "shrinking by 1,200", "caught up at about"),
        ({"growth": -20.0, "deleted_in": 500.0}, "shrinking by 1,200", "Kafka will delete"),
        ({"growth": 20.0}, "growing by 1,200 records a minute", "it does not catch up at this pace"),
        ({"growth": 0.0}, "neither growing nor shrinking", "it does not catch up at this pace"),
        ({"growth": None}, "unknown", "unknown"),
        ({"growth": 1.0, "deleted_in": 0.0}, "growing by 60 records", "Kafka is deleting"),
        # `retention.ms` of 2^63 - 1, and a lag that stands still: its slope is a rounding error.
        ({"deleted_in": 9223372036854775.807}, "growing by 1,200", "it does not catch up at this pace"),
        ({"growth": -1e-9}, "neither growing nor shrinking", "it does not catch up at this pace"),
    ],
)
def test_the_outlook_is_the_worse_of_the_two(more: dict[str, Any], pace: str, outlook: str) -> None:
    found = alert(**more)
    assert found.pace.startswith(pace)
    assert found.outlook.startswith(outlook)


def test_html_escapes_what_others_wrote_and_a_subject_is_one_short_line() -> None:
    found = Alert(
        "orders",
        IncidentKind.DOWN,
        "orders-1",
        True,
        AT,
        AT,
        ("failed:\n<img src=x onerror=alert(1)> & more", "x" * 300),
    )
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; more" in found.html
    assert "<img" not in found.html
    assert found.html.startswith("<pre>failed:\n")
    assert found.subject.startswith("orders: failed: <img src=x")
    assert len(found.subject) == 200


def test_an_unknown_lag_and_one_that_is_over_are_told_as_such() -> None:
    assert alert(records=None).subject == "orders: its lag behind Kafka is unknown"
    over = alert(open=False, reasons=("Kafka has deleted 7 records.",))
    assert over.subject == "orders keeps up with Kafka again"
    assert over.text.splitlines() == [
        "It is within its limits again.",
        "Kafka has deleted 7 records.",
        "Since: 2023-11-14 22:01 UTC (for 12 min).",
        "Incident: orders-1",
    ]


def test_the_pace_is_that_of_the_last_quarter_of_an_hour() -> None:
    assert growth([(0.0, 99999), *((2000.0 + 60 * n, 100 + 120 * n) for n in range(10))]) == pytest.approx(2.0)
    assert growth([(0.0, 5), (10.0, None), (20.0, 45)]) == pytest.approx(2.0)
    assert [growth([]), growth([(0.0, 5)]), growth([(0.0, 5), (10.0, None)]), growth([(0.0, 5), (0.0, 6)])] == [
        None
    ] * 4


def test_the_pace_of_a_stream_that_has_just_died_is_that_since_its_death() -> None:
    healthy = [(60.0 * n, 30 + 10 * (n % 3)) for n in range(13)]
    assert growth([*healthy, (780.0, 3030), (840.0, 6030)]) == pytest.approx(50.0, rel=0.05)
    catches_up = [*((60.0 * n, 3000 * n) for n in range(10)), (600.0, 18_000), (660.0, 9000)]
    assert growth(catches_up) == pytest.approx(-150.0)
    saw_tooth = [(60.0 * n, (100, 900, 200, 800)[n % 4]) for n in range(15)]
    assert abs(growth(saw_tooth) or 0.0) < 1.0


def test_the_message_about_another_kind_says_what_and_since_when() -> None:
    opened = Alert(
        "orders",
        IncidentKind.DOWN,
        "orders-down-1",
        True,
        0.0,
        90.0,
        ("Nobody runs it.",),
        links={"Spark UI": "http://ui"},
    )
    assert opened.subject == "orders: Nobody runs it."
    assert opened.text.splitlines() == [
        "Nobody runs it.",
        "For 1 min 30 s.",
        "Spark UI: http://ui",
        "Look: airflow streams history orders",
        "Incident: orders-down-1",
    ]
    over = Alert("orders", IncidentKind.DOWN, "orders-down-1", False, 0.0, 90.0, ("Nobody runs it.",))
    assert over.subject == "orders is well again"
    settled = replace(over, kind="finished")
    assert settled.subject == "orders: somebody has stopped or started it since its script ended"
    assert over.text.splitlines()[0] == "It is over, after 1 min 30 s: Nobody runs it."


def test_of_what_was_found_just_now_nobody_is_told_that_it_has_lasted_no_time() -> None:
    opened = Alert("orders", IncidentKind.DOWN, "orders-down-1", True, AT, AT, ("Nobody runs it.",))
    assert opened.text.splitlines()[:2] == ["Nobody runs it.", "Look: airflow streams history orders"]


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("lag", "lag"),
        ("lag_unknown", "lag"),
        ("query", "status"),
        ("down", "history"),
        ("upgrade", "history"),
        ("log", "history"),
    ],
)
def test_where_to_look_fits_what_is_wrong(kind: str, command: str) -> None:
    opened = Alert("orders", kind, "orders-1", True, AT, AT, ("It is odd.",))
    assert f"Look: airflow streams {command} orders" in opened.text.splitlines()


def test_the_example_of_the_page_is_what_is_sent() -> None:
    since = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    sent = Alert(
        "orders",
        IncidentKind.LAG,
        Incident.of("orders-lag", since).id,
        True,
        since,
        since + 720,
        ("enrich is behind by 12,000 records; 1,000 are allowed.",),
        records=12_000,
        seconds=300.0,
        growth=20.0,
        deleted_in=7200.0,
    )
    page = (Path(__file__).parents[3] / "docs" / "lag.md").read_text()
    assert f"{sent.subject}\n\n{sent.text}\n" in page
