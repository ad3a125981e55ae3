"""Draw a real hand-over beside a real restart: records per second, and records behind, over time.

    python -m benchmarks.upgrade_gap --rounds 1 --keys    # leaves build/bench/gap_picture.json
    python -m benchmarks.gap_picture [--data benchmarks/gap_picture.json] [--picture docs/gap.png]

The README shows the picture. Its data, a few kB, is kept beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

LOOKS_A_SECOND = 4
TITLES = {"handover": "hand-over", "restart": "stop, then submit"}


def around(
    asked: float, since: float, until: float, produced: Sequence[float], written: Sequence[float]
) -> dict[str, Any]:
    """Return what happened around a change, for its picture.

    :param asked: when the change was asked for, in seconds since 1970.
    :param since: where the picture begins, in whole seconds after that; negative.
    :param until: where it ends, in the same way.
    :param produced: sorted times of the records of the input, in seconds since 1970.
    :param written: the same of the output.
    :return: `since`; `per_second`, the records written in each second; and `behind`, how many records are produced and
        not written, at each quarter of a second from `since` to `until`.
    """
    begin, seconds = int(since), int(until) - int(since)
    done = [bisect_right(written, asked + begin + second) for second in range(seconds + 1)]
    looks = [asked + begin + look / LOOKS_A_SECOND for look in range(seconds * LOOKS_A_SECOND + 1)]
    return {
        "since": begin,
        "per_second": [after - before for before, after in pairwise(done)],
        "behind": [bisect_right(produced, at) - bisect_right(written, at) for at in looks],
    }


def draw(path: Path, data: Mapping[str, Any]) -> None:
    """Draw the picture: a column for each change, with records per second above and records behind below.

    :param data: by change what `around` has returned, with `gap_seconds`, the longest time without a commit.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    widths = [len(data[side]["per_second"]) for side in TITLES]
    top = 4 * median(data["handover"]["per_second"])
    figure, panels = pyplot.subplots(
        2, len(TITLES), figsize=(10, 4.6), sharex="col", sharey="row", width_ratios=widths, layout="constrained"
    )
    for (rates, behind), (side, title) in zip(panels.T, TITLES.items(), strict=True):
        found = data[side]
        seconds = [found["since"] + number + 0.5 for number in range(len(found["per_second"]))]
        rates.bar(seconds, found["per_second"], width=1.0, color="#4c78a8")
        looks = [found["since"] + number / LOOKS_A_SECOND for number in range(len(found["behind"]))]
        behind.fill_between(looks, found["behind"], color="#e45756", alpha=0.7, linewidth=0)
        rates.set_title(f"{title}: {found['gap_seconds']:.1f} s without output", fontsize=11)
        behind.set_xlabel("seconds after it was asked for")
        for panel in (rates, behind):
            panel.axvline(0, color="#333333", linewidth=1, linestyle=":")
            panel.grid(axis="y", alpha=0.3)
            panel.margins(x=0)
        for second, rate in zip(seconds, found["per_second"], strict=True):
            if rate > top:  # what had waited comes out at once
                rates.annotate(f" {rate:,}", (second, top), va="top", fontsize=9)
    panels[0, 0].set_ylim(0, top)
    panels[1, 0].set_ylim(bottom=0)
    panels[0, 0].set_ylabel("records written, per second")
    panels[1, 0].set_ylabel("records behind")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def main() -> int:
    """Draw the picture of the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("build/bench/gap_picture.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/gap.png"))
    options = parser.parse_args()
    draw(options.picture, json.loads(options.data.read_text()))
    print(f"wrote {options.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
