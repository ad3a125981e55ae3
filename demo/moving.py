"""Draw the hand-over and the roll-back of a demo as a moving picture: `python -m demo.moving`, after `make demo`.

The README shows it. It is drawn from `timeline` of the demo's report: the batches of each query, and who held.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BEFORE_SECONDS, AFTER_SECONDS = 12.0, 12.0  # of a scene, around its changes of holder
FRAMES_A_SECOND = 8
SPEED = 2.0  # seconds of the demo in a second of the picture
COLOURS = ("#4c78a8", "#54a24b", "#e45756", "#b279a2")


def waiting(batches: Mapping[str, Sequence[float]], at: float) -> float:
    """Return the seconds since the last batch, of the query that waits longest.

    :param batches: by query, the sorted times of its commits; each has one before `at`.
    """
    return max(at - times[max(0, bisect_right(times, at) - 1)] for times in batches.values())


def holder(changes: Sequence[Mapping[str, Any]], at: float) -> str:
    """Return the version that held last at this time; empty before the first change."""
    return next((str(each["version"]) for each in reversed(changes) if each["at"] <= at), "")


def scenes(timeline: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return name, begin and end of each step in which a release took over from another one."""
    found = []
    for step in timeline["steps"]:
        at = [each["at"] for each in timeline["changes"] if step["started"] <= each["at"] <= step["ended"]]
        if at and step["result"] in ("handed-over", "rolled-back"):
            found.append((f"{step['name']}: {step['result']}", at[0] - BEFORE_SECONDS, at[-1] + AFTER_SECONDS))
    return found


def draw(path: Path, timeline: Mapping[str, Any]) -> None:
    """Draw it as a GIF.

    :param timeline: of a report of the demo.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.animation import PillowWriter

    batches, changes = timeline["batches"], timeline["changes"]
    versions = list(dict.fromkeys(str(each["version"]) for each in changes))
    step = SPEED / FRAMES_A_SECOND
    figure, panel = pyplot.subplots(figsize=(8, 2.8), layout="constrained")
    writer = PillowWriter(fps=FRAMES_A_SECOND)
    with writer.saving(figure, str(path), dpi=80):
        for name, begin, end in scenes(timeline):
            moments = [begin + number * step for number in range(int((end - begin) / step) + 1)]
            heights = [waiting(batches, at) for at in moments]
            colours = [COLOURS[versions.index(holder(changes, at)) % len(COLOURS)] for at in moments]
            for shown in range(1, len(moments) + 1):
                panel.clear()
                panel.bar(
                    [at - begin for at in moments[:shown]], heights[:shown], step, align="edge", color=colours[:shown]
                )
                panel.set(xlim=(0, end - begin), ylim=(0, max(3.0, 1.1 * max(heights))))
                panel.set(xlabel="seconds", ylabel="s since the last batch")
                panel.set_title(name, loc="left", fontsize=11)
                now = holder(changes, moments[shown - 1])
                panel.set_title(
                    f"release {now} holds: {heights[shown - 1]:.1f} s", loc="right", color=colours[shown - 1]
                )
                writer.grab_frame()
    pyplot.close(figure)


def main() -> int:
    """Draw the picture of the README."""
    parser = argparse.ArgumentParser(prog="python -m demo.moving", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("build/demo/report.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/demo.gif"))
    options = parser.parse_args()
    draw(options.picture, json.loads(options.report.read_text())["timeline"])
    print(f"wrote {options.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
