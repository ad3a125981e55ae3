from __future__ import annotations

import io

from rich.console import Console

from demo.display import Display, bars, summarise
from demo.report import Report, StepReport
from devstack.audit import Records


def test_bars_show_the_last_intervals() -> None:
    assert bars({}) == bars({0: 1.0}) == ""
    assert bars({0: 0.0, 1: 1.0, 2: 3.0, 3: 60.0}) == "▃▅█"
    assert len(bars({batch: float(batch) for batch in range(200)}, width=20)) == 20


def test_the_summary_has_lost_orders_and_gaps() -> None:
    console = Console(file=io.StringIO(), width=120)
    step = StepReport("upgrade to release 2", "handed-over", {"enrich": 1.234}, {"enrich": "completed"})
    steady = {"enrich": {"p50": 1.0, "p95": 1.2}, "totals": {}}
    summarise(console, Report([step], steady, Records(1000, 1001, 0, 1, 0), max_holders=1, seconds_total=61.0, lag={}))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1.23" in text
    assert "completed" in text
    assert "1,000 orders produced, 1,001 delivered: 0 lost, 1 duplicated by upgrades" in text


def test_without_a_terminal_each_step_is_a_line() -> None:
    console = Console(file=io.StringIO(), width=120)
    with Display(console) as display:
        display.say("starting Kafka")
    assert "starting Kafka" in console.file.getvalue()  # type: ignore[attr-defined]
