"""Draw the commits during the demo, with all changes of holder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo.history import StepResult
from demo.report import Step
from devstack.commits import Commits, crossing

_COLOURS = {
    StepResult.ADOPTED: "#4c78a8",
    StepResult.DEPLOYED: "#4c78a8",
    StepResult.HANDED_OVER: "#54a24b",
    StepResult.REFUSED: "#eeca3b",
    StepResult.ROLLED_BACK: "#e45756",
}
_ACROSS = ("data", "axes fraction")  # x is a time, y is relative to the panel's height


def draw(path: Path, commits: Mapping[str, Commits], steps: Sequence[Step]) -> None:
    """Draw the intervals between commits over time, one panel per query, and mark steps and changes of holder.

    :param path: file of the picture.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    origin = min(at for times in commits.values() for at in times.values())
    figure, panels = pyplot.subplots(
        len(commits), 1, figsize=(12, 2.6 * len(commits) + 1.2), sharex=True, squeeze=False, layout="constrained"
    )
    figure.suptitle("Seconds between commits while the stream is upgraded under load", fontsize=13)
    for panel, (query, commit_times) in zip(panels[:, 0], commits.items(), strict=True):
        times = sorted(commit_times.values())
        gaps = [later - earlier for earlier, later in pairwise(times)]
        panel.plot([at - origin for at in times[1:]], gaps, ".", markersize=4, color="#333333")
        panel.set_ylabel(f"{query} (s)")
        panel.set_ylim(0, max(4.0, 1.25 * max(gaps, default=0)))
        panel.grid(axis="y", alpha=0.3)
        mark(panel, steps, origin)
        for step in steps:
            for change in step.changes:
                gap = crossing(commit_times, change.at)
                if gap is not None:
                    where = (change.at - origin, 0.93)
                    panel.annotate(f" {gap:.1f} s", where, xycoords=_ACROSS, color=_COLOURS[step.result])
    name_steps(panels[0, 0], steps, origin)
    panels[-1, 0].set_xlabel(
        "seconds since the first commit; shaded: a DAG run; vertical line: another driver takes over, with its gap"
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def mark(panel: Any, steps: Sequence[Step], origin: float) -> None:
    """Shade the time of each step, and draw a vertical line at each change of holder.

    :param origin: the time of x = 0, in seconds since 1970.
    """
    for step in steps:
        colour = _COLOURS[step.result]
        panel.axvspan(step.started - origin, step.ended - origin, color=colour, alpha=0.12, linewidth=0)
        for change in step.changes:
            panel.axvline(change.at - origin, color=colour, linewidth=1.5)


def name_steps(panel: Any, steps: Sequence[Step], origin: float) -> None:
    """Write the name and the result of each step above a panel."""
    for step in steps:
        panel.annotate(
            f"{step.name}\n{step.result.value}",
            ((step.started + step.ended) / 2 - origin, 1.02),
            xycoords=_ACROSS,
            ha="center",
            va="bottom",
            fontsize=9,
            annotation_clip=False,
        )
