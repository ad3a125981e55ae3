"""What the commands show, as text on a wide terminal: in `golden/`, and here what steers none and what is coloured."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from airflow_stream_provider.cli.status import Code, StreamStatus
from airflow_stream_provider.cli.tables import (
    PARTITIONS,
    comparison_view,
    lag_view,
    life_table,
    samples_table,
    status_table,
)
from airflow_stream_provider.hooks.compare import Comparison, Difference
from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits, LagLook, Streaks
from airflow_stream_provider.lag.report import Ceilings, LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.monitoring.life import LifeEvent, What
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from tests.support.golden import assert_golden
from tests.support.lag_reports import partition, report
from tests.support.story import OLD_DEPLOYMENT, RUNNING, play


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(view: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def lag(look: LagLook) -> str:
    return shown(lag_view("orders", look, look.judge(LagLimits(max_records=10)), Ceilings()))


def test_a_lag() -> None:
    def of(count: int) -> str:
        return lag(LagLook.of(report(*(partition(n, n) for n in range(count)))))

    said = {
        "it is behind": lag(LagLook.of(report(partition(11), partition(None, 1, None), seconds=75.0))),
        "it could not be measured": lag(LagLook.failed(StreamError("Kafka does not answer."))),
        "one partition more than is shown": of(PARTITIONS + 1),
    }
    assert_golden(__file__, "lag", said)
    assert "are not shown" not in of(PARTITIONS)


def test_the_judgement_gives_the_colour() -> None:
    out = io.StringIO()
    view = lag_view("s", LagLook.failed(StreamError("Away.")), LagJudgement(Health.FAIL, ("It is late.",)), Ceilings())
    Console(file=out, width=80, force_terminal=True, color_system="standard").print(view)
    assert out.getvalue().count("\x1b[1;31m") == 1
    assert "\x1b[31mIt is late." in out.getvalue()


def sample(**more: Any) -> LagSample:
    queries = {"a": QuerySample(1200, 75.0, "WARN", ("retention",)), "b": QuerySample(None, None, "")}
    return LagSample(**{"at": 1000.0, "phase": "running", "version": "2", "queries": queries, **more})


WANTED = "Release 2 is to hold the stream, by person:ann (disk), since 2026-11-27 12:00:00 UTC, and it is so."


def test_the_status_of_streams() -> None:
    lines = [
        StreamStatus("orders", "running", "2", sample(), code=Code.WARN, silent_seconds=2.0, wanted=WANTED),
        StreamStatus("quiet", "silent", "2", sample(), code=Code.BAD, silent_seconds=2400.0),
        StreamStatus("broken", problem="line 3: this is not YAML."),
    ]
    said = {"three streams": shown(status_table(lines, 1090.0)), "none": shown(status_table([], 0.0))}
    assert_golden(__file__, "status", said)


def test_the_samples_of_a_watch() -> None:
    opened = {kind: IncidentState(Streaks(), Incident(f"orders-{kind}", 1.0)) for kind in ("lag", "down")}
    away = "Kafka does not answer."
    samples = [
        sample(version=""),
        sample(at=1060.0, problem=away),
        sample(at=1120.0, problem=away, incidents={**opened, "late": IncidentState(Streaks(), None)}),
        sample(at=1180.0, phase="silent", silent_seconds=2400.0),
        sample(at=2000.0, phase="stopped"),
    ]
    assert_golden(__file__, "lag-history", {"five looks": shown(samples_table("orders", samples))})


HELD = play(RUNNING).deployments[OLD_DEPLOYMENT]
SAME = Comparison("orders", StreamPhase.RUNNING, HELD, HELD.release)
ODD = "\x1b]52;c;eA\x1b\\x"


def test_a_comparison_with_the_yaml() -> None:
    differences = (
        Difference("release", "a" * 64, "b" * 64),
        Difference("files.a.py", None, "b" * 64),
        Difference("arguments", ["--a", "b c"], None),
        Difference("upgrade.lease_seconds", 30.0, 45),
        Difference("upgrade.foreach_batch_safe", False, True),
        Difference("conf.x", "[red]", ODD),
    )
    said = {
        "it is the same": SAME,
        "it is stopped": replace(SAME, phase=StreamPhase.STOPPED),
        "it never ran": replace(SAME, running=None),
        "the release is the same": replace(SAME, found=(Difference("cluster", "a", "b"),)),
        "its files cannot be read": replace(SAME, wanted=Release("2", "b" * 64), problem="It is away."),
        "much is different": replace(SAME, found=differences),
    }
    assert_golden(__file__, "diff", {name: shown(comparison_view(found)) for name, found in said.items()})


def test_the_example_of_the_page_is_what_is_shown() -> None:
    held = replace(HELD, id="orders-2-0-0-1a2b3c4d", release=Release("2.0.0", "2f1d0c9b8a7e".ljust(64, "0")))
    found = (
        Difference("release", held.release.hash, "7a6b5c4d3e2f".ljust(64, "0")),
        Difference("version", "2.0.0", "2.1.0"),
        Difference("files.orders.py", "9c8b7a6f5e4d".ljust(64, "0"), "0a1b2c3d4e5f".ljust(64, "0")),
        Difference("conf.spark.executor.cores", None, "2"),
    )
    wanted = Release("2.1.0", str(found[0].yaml))
    page = (Path(__file__).parents[3] / "docs" / "upgrade.md").read_text()
    assert shown(comparison_view(Comparison("orders", StreamPhase.RUNNING, held, wanted, found))) in page


def test_the_life_of_a_stream() -> None:
    by_command = "person:anna@edge1/2026-01-01T00:00:00.000000Z/restart.stop"
    events = [
        LifeEvent(1, What.DEPLOYED, 0.0, "airflow:orders__upgrade/manual__1/submit"),
        LifeEvent(2, What.ABORTED, 0.0, "driver:a.1", incarnation="b.2"),
        LifeEvent(3, What.STOOD_BY, 0.0, "driver:b.2", incarnation="b.2"),
        LifeEvent(4, What.UNKNOWN, 0.0, "airflow:newer"),
        LifeEvent(5, What.ILLEGAL),
        LifeEvent(6, What.HANDED_OVER, free_seconds=1.25),
        LifeEvent(7, What.STARTED, free_seconds=3600.0),
        LifeEvent(8, What.HANDED_OVER, free_seconds=1.2, gap_seconds={"a": 2.0, "b": 3.0}),
        LifeEvent(9, What.FENCED, reason="gone", evidence={"person": "ann"}),
        LifeEvent(10, What.ADOPTED, reason="first", evidence={"job": "driver-1"}),
        LifeEvent(11, What.FAILED, 1.0, reason="no column [b]x[/b]"),
        LifeEvent(12, What.FAILED, reason=ODD),
        LifeEvent(13, What.STOPPED, 0.0, by_command),
        LifeEvent(14, What.STOPPED, 0.0, "person:anna"),
    ]
    assert_golden(__file__, "history", {"fourteen events": shown(life_table("orders", events))})


# Names and texts of scripts, drivers and Kafka. The second would end the command, the third sets a clipboard.
@pytest.mark.parametrize(
    ("said", "is_shown"),
    [("orders[eu]", "orders[eu]"), ("totals [/day]", "totals [/day]"), (ODD, "\ufffd]52;c;eA\ufffd\\x")],
)
def test_what_others_say_is_shown_as_they_say_it_and_steers_no_terminal(said: str, is_shown: str) -> None:
    found = QueryLag(said, (PartitionLag(said, 0, PartitionState.OK, committed=3, log_start=0, end=9),))
    failing = LagJudgement(Health.FAIL, (said,))
    views = (
        lag_view(said, LagLook.of(LagReport(1.0, (found,))), failing, Ceilings()),
        status_table([StreamStatus(said, said, said, sample(), problem=said)], 1090.0),
        samples_table(said, [sample(phase=said, version=said, problem=said)]),
        life_table(said, [LifeEvent(1, What.FAILED, reason=said)]),
        comparison_view(replace(SAME, found=(Difference("conf.x", said, "y"),))),
    )
    for view, count in zip(views, (5, 5, 4, 2, 1), strict=True):
        text = shown(view)
        assert text.count(is_shown) == count, text
        assert "\x1b" not in text
