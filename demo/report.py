"""The report of the demo: the result of each step, gaps, counts and lag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo.history import Change, StepResult
from devstack.audit import Records
from devstack.commits import Commits, crossing, intervals, percentiles


@dataclass(frozen=True)
class Step:
    """One step.

    :param name: what was requested.
    :param started: when it started, in seconds since 1970.
    :param ended: when it ended, in seconds since 1970.
    :param result: its result.
    :param changes: the changes of holder in it.
    """

    name: str
    started: float
    ended: float
    result: StepResult
    changes: Sequence[Change] = ()


@dataclass(frozen=True)
class StepReport:
    """One step in the report.

    If the holder changed twice (upgrade and roll-back), the longer gap and the worse boundary count.

    :param name: what was requested.
    :param result: its result.
    :param gap_seconds: by query, the seconds from the last commit before a change of holder to the first after it.
    :param boundary: ``completed`` or ``interrupted``, by query.
    """

    name: str
    result: str
    gap_seconds: dict[str, float]
    boundary: dict[str, str]


@dataclass(frozen=True)
class Report:
    """The contents of `report.json`; the fields are its keys.

    :param steps: the adoption or first deployment, and the upgrades.
    :param steady_seconds: p50 and p95 of the intervals between commits outside upgrades, by query.
    :param records: counts of produced, lost and duplicated orders.
    :param max_holders: largest number of holders at the same time.
    :param seconds_total: duration of the demo, in seconds.
    :param lag: the lag; see `describe_lag`.
    :param timeline: when what happened; see `timeline_of`.
    """

    steps: list[StepReport]
    steady_seconds: dict[str, dict[str, float]]
    records: Records
    max_holders: int
    seconds_total: float
    lag: Mapping[str, Any]
    timeline: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")


def describe(step: Step, commits: Mapping[str, Commits]) -> StepReport:
    """Return a step for the report.

    :param commits: the commits of each query.
    """
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
    return StepReport(step.name, step.result.value, gaps, boundary)


def steady(steps: Sequence[Step], commits: Mapping[str, Commits]) -> dict[str, dict[str, float]]:
    """Return p50 and p95 of the intervals between commits outside the steps, in seconds, by query."""
    calm = [(before.ended, after.started) for before, after in pairwise(steps)]
    return {
        query: percentiles([gap for since, until in calm for gap in intervals(times, since, until)])
        for query, times in commits.items()
    }


def failure_times(changes: Sequence[Change], commits: Commits) -> list[tuple[float, float]]:
    """Return when a query ran a batch again after a failure: intervals from the take-over to the first commit."""
    times = sorted(commits.values())
    return [
        (change.at, next((at for at in times if at > change.at), float("inf")))
        for change in changes
        if not change.clean
    ]


def timeline_of(steps: Sequence[Step], commits: Mapping[str, Commits], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the batches of each query, the steps, and which version took over when: in seconds since the first batch.

    :param versions: of each driver's release.
    """
    origin = min(at for times in commits.values() for at in times.values())
    return {
        "batches": {
            query: [round(at - origin, 2) for at in sorted(times.values())] for query, times in commits.items()
        },
        "steps": [
            {
                "name": step.name,
                "result": step.result.value,
                "started": round(step.started - origin, 2),
                "ended": round(step.ended - origin, 2),
            }
            for step in steps
        ],
        "changes": [
            {"at": round(change.at - origin, 2), "version": versions.get(change.to, "")}
            for step in steps
            for change in step.changes
        ],
    }
