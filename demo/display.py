"""Show the progress of the demo on the console, and its results as tables."""

from __future__ import annotations

import re
import time
from itertools import pairwise

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.history import StepResult
from demo.report import Report
from demo.story import Story
from devstack.commits import Commits

_STYLES = {StepResult.REFUSED: "yellow", StepResult.ROLLED_BACK: "yellow"}
_BARS = "▁▂▃▄▅▆▇█"
_FULL_BAR_SECONDS = 4.0
_DIGITS = re.compile(r"\d+")


class Display:
    """Shows the progress live while its `with` block runs; without a terminal, one line for each step.

    :param console: where to show it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._story: Story | None = None
        self._said = ""
        self._started = time.monotonic()
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def say(self, what: str) -> None:
        """Show what the demo is doing. Without a terminal, a message that differs only in numbers is shown once."""
        if _DIGITS.sub("", what) != _DIGITS.sub("", self._said) and not self._console.is_terminal:
            self.tell(what)
        self._said = what

    def tell(self, what: str) -> None:
        """Print what has happened; it stays above what is live."""
        self._console.print(f"{self._elapsed():>5.0f} s  {what}", markup=False, highlight=False, soft_wrap=True)

    def watch(self, story: Story) -> None:
        """Show the progress of a story from now on."""
        self._story = story

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _render(self) -> RenderableType:
        rows: list[RenderableType] = []
        if self._story is not None:
            rows = [_steps(self._story), Text(), _stream(self._story)]
        rows.append(Text(f"\n{self._elapsed():.0f} s  {self._said}", style="bold"))
        return Panel(Group(*rows), title="airflow-stream-provider: upgrades under load")


def summarise(console: Console, report: Report) -> None:
    """Print the report as tables."""
    queries = list(report.steady_seconds)
    table = Table(title="Upgrades under load: seconds from the old release's last commit to the new one's first")
    table.add_column("step")
    table.add_column("result")
    for query in queries:
        table.add_column(query, justify="right")
        table.add_column("batch")
    for step in report.steps:
        cells: list[RenderableType] = [
            step.name,
            Text(step.result, style=_STYLES.get(StepResult(step.result), "green")),
        ]
        for query in queries:
            gap = step.gap_seconds.get(query)
            cells += ["" if gap is None else f"{gap:.2f}", step.boundary.get(query, "")]
        table.add_row(*cells)
    table.add_section()
    for name in ("p50", "p95"):
        cells = [f"steady interval, {name}", ""]
        for query in queries:
            steady = report.steady_seconds[query].get(name)
            cells += ["" if steady is None else f"{steady:.2f}", ""]
        table.add_row(*cells)
    console.print(table)
    records = report.records
    console.print(
        f"{records.produced:,} orders produced, {records.delivered:,} delivered: {records.lost} lost, "
        f"{records.duplicated} duplicated by upgrades, {records.duplicated_by_failure} by failures; "
        f"at most {report.max_holders} holder at any time; {report.seconds_total:.0f} s."
    )


def _steps(story: Story) -> Table:
    table = Table.grid(padding=(0, 2))
    for position, chapter in enumerate(story.chapters):
        if position < len(story.steps):
            step = story.steps[position]
            style = _STYLES.get(step.result, "green")
            seconds = f"{step.ended - step.started:.0f} s"
            table.add_row(Text("✓", style=style), chapter.name, Text(step.result.value, style=style), seconds)
        elif chapter is story.running:
            table.add_row(Text("▶", style="cyan"), chapter.name, "", f"{time.time() - story.step_started:.0f} s")
        else:
            table.add_row(Text("·", style="dim"), Text(chapter.name, style="dim"), "", "")
    return table


def _stream(story: Story) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("orders produced", f"{story.producer.sent:,}", "", "")
    for query, commits in story.watcher.commits.items():
        since = time.time() - max(commits.values(), default=time.time())
        late = Text(f"{max(0.0, since):.1f} s since the last batch", style="red" if since > _FULL_BAR_SECONDS else "")
        table.add_row(f"batches of {query}", f"{len(commits):,}", Text(bars(commits), style="cyan"), late)
    return table


def bars(commits: Commits, width: int = 48) -> str:
    """Return the last intervals between commits as bars. A full bar is four seconds or more."""
    times = sorted(commits.values())[-width - 1 :]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return "".join(_BARS[min(len(_BARS) - 1, int(gap / _FULL_BAR_SECONDS * len(_BARS)))] for gap in gaps)
