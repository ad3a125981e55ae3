"""The demo's report: what happened at each step, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo.audit import Records
from demo.commits import Commits, crossing, intervals, percentiles
from demo.history import Change, StepResult


@dataclass(frozen=True)
class Step:
    """One upgrade: what was asked, from when to when (wall clock), what became of it, and who took over in it."""

    name: str
    started: float
    ended: float
    outcome: StepResult
    changes: Sequence[Change] = ()


@dataclass(frozen=True)
class StepReport:
    """One step in the report. Gaps are seconds from the last commit before a change of holder to the first after it.

    Of a step with two changes of holder (there and back), the longer gap and the worse boundary count.
    """

    name: str
    outcome: str
    gap_seconds: dict[str, float]
    boundary: dict[str, str]


@dataclass(frozen=True)
class Report:
    """Everything that `report.json` says; the fields are its keys."""

    steps: list[StepReport]
    steady_seconds: dict[str, dict[str, float]]
    records: Records
    max_holders: int
    seconds_total: float
    lag: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")


def describe(step: Step, commits: Mapping[str, Commits]) -> StepReport:
    """Return what the report says of a step."""
    takeovers = [change for change in step.changes if change.source is not None]
    gaps: dict[str, float] = {}
    boundary: dict[str, str] = {}
    for query, times in commits.items():
        found = [gap for change in takeovers if (gap := crossing(times, change.at)) is not None]
        if found:
            gaps[query] = round(max(found), 3)
        ends = [change.boundary[query] for change in takeovers if query in change.boundary]
        if ends:
            boundary[query] = max(ends)  # "interrupted" sorts after "completed"
    return StepReport(step.name, step.outcome.value, gaps, boundary)


def steady(steps: Sequence[Step], commits: Mapping[str, Commits]) -> dict[str, dict[str, float]]:
    """Return p50 and p95 of the intervals between commits, by query, in the times between the steps."""
    calm = [(before.ended, after.started) for before, after in pairwise(steps)]
    return {
        query: percentiles([gap for since, until in calm for gap in intervals(times, since, until)])
        for query, times in commits.items()
    }


def failure_times(changes: Sequence[Change], commits: Commits) -> list[tuple[float, float]]:
    """Return the times in which a query ran again a batch that a failure had cut off: until the first commit."""
    times = sorted(commits.values())
    return [
        (change.at, next((at for at in times if at > change.at), float("inf")))
        for change in changes
        if not change.clean
    ]
