"""Draw the lag during the demo: in records and in seconds, with verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.report import GroupVerdict
from airflow_stream_provider.monitoring.samples import LagSample
from demo.picture import mark, name_steps
from demo.report import Step

_VERDICTS = {
    GroupVerdict.OK: "#54a24b",
    GroupVerdict.WARN: "#f58518",
    GroupVerdict.ERR: "#e45756",
    GroupVerdict.UNKNOWN: "#9d9d9d",
    GroupVerdict.NOTFOUND: "#9d9d9d",
}
_LINES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")


def draw_lag(path: Path, samples: Sequence[LagSample], steps: Sequence[Step], limits: LagLimits) -> None:
    """Draw the lag in records and in seconds over time, with a line for each query and a dot for each verdict.

    :param path: file of the picture.
    :param limits: the limits of soak and watch; those that are set are drawn.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    origin = min((sample.at for sample in samples), default=0.0)
    figure, panels = pyplot.subplots(2, 1, figsize=(12, 7.2), sharex=True, layout="constrained")
    figure.suptitle("Lag while the stream is upgraded under load", fontsize=13)
    names = list(dict.fromkeys(name for sample in samples for name in sample.queries))
    for panel, what, limit in zip(
        panels, ("records", "seconds"), (limits.max_records, limits.max_seconds), strict=True
    ):
        for number, name in enumerate(names):
            _draw(panel, samples, name, what, origin, _LINES[number % len(_LINES)])
        if limit is not None:
            panel.axhline(limit, color="#e45756", linewidth=1, alpha=0.6)
            panel.annotate(f" limit {limit:g}", (0, limit), color="#e45756", va="bottom", fontsize=9)
        panel.set_ylabel(f"lag ({what})")
        panel.set_ylim(bottom=0)
        panel.grid(axis="y", alpha=0.3)
        mark(panel, steps, origin)
    name_steps(panels[0], steps, origin)
    handles = [Line2D([], [], color="#333333", linestyle=_LINES[n % len(_LINES)], label=q) for n, q in enumerate(names)]
    seen = {query.verdict for sample in samples for query in sample.queries.values()}
    handles += [
        Line2D([], [], color=colour, marker="o", linestyle="", label=verdict.value)
        for verdict, colour in _VERDICTS.items()
        if verdict.value in seen
    ]
    panels[1].legend(handles=handles, loc="upper left", fontsize=9, ncols=len(handles) or 1)
    panels[1].set_xlabel("seconds; shaded: a DAG run; vertical line: another driver takes over")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw(panel: Any, samples: Sequence[LagSample], name: str, what: str, origin: float, line: str) -> None:
    found = [(sample.at - origin, sample.queries[name]) for sample in samples if name in sample.queries]
    # Unknown values leave a gap in the line.
    values = [float("nan") if getattr(query, what) is None else getattr(query, what) for _, query in found]
    panel.plot([at for at, _ in found], values, line, color="#333333", linewidth=1, zorder=2)
    colours = [_VERDICTS.get(GroupVerdict(query.verdict), "#9d9d9d") for _, query in found]
    panel.scatter([at for at, _ in found], values, s=9, c=colours, zorder=3)
