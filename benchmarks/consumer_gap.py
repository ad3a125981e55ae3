"""The gap of a hand-over as a consumer of the output topic sees it, beside the gap between commits.

    python -m benchmarks.consumer_gap [--hand-overs 100]

500 records/s, trigger 1 s, two drivers that are up and have held before; the stream is handed over between them again
and again, at a random moment of the trigger's second. A consumer in a process of its own notes when each record of the
output arrives. A window is the time around one hand-over; after each comes a steady one of the same length. Of each
window counts the longest time between two records that arrive one after the other, and likewise between two commits of
the same query. About ten seconds a hand-over, and three minutes before the first.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.change import STEPS, Change, change
from benchmarks.consumer import Consumer, longest
from benchmarks.results import machine, show, spread, write
from devstack.audit import count
from devstack.stack import LocalStack
from devstack.stack_stream import QUERIES, StackStream, stack_stream

RATE = 500
# Longer when a hand-over takes longer.
WINDOW_SECONDS = 5.0
WARM_SECONDS = 20.0
# The output of this query is what the consumer reads.
QUERY = "out"
SLOWEST_SHOWN = 5


@dataclass(frozen=True)
class Window:
    """A stretch of time by the clock of this process (monotonic) and by that of the commits (since 1970)."""

    since: float
    until: float
    since_wall: float
    until_wall: float

    @classmethod
    def beginning(cls, since: float, since_wall: float) -> Window:
        """Return the window that began then and ends now."""
        return cls(since, time.monotonic(), since_wall, time.time())


class Run:
    """A stream with two drivers, handed over between them."""

    def __init__(self, stream: StackStream) -> None:
        self.stream = stream
        self.changes: list[Change] = []
        self.around: list[Window] = []
        self.steady: list[Window] = []
        self._chance = random.Random(1)

    def warm_up(self) -> None:
        """Bring up both drivers, and let each of them hold once."""
        for number in (1, 2):
            self.stream.submit(f"driver-{number}", "--max-offsets", "1000000")
            change(self.stream, self.stream.standby(f"driver-{number}"))
            time.sleep(WARM_SECONDS)
        self.hand_over()
        self.hand_over()
        time.sleep(WARM_SECONDS)
        self.changes, self.around, self.steady = [], [], []

    def hand_over(self) -> None:
        """Hand over to the driver that does not hold, then let the stream run for as long."""
        state = self.stream.state
        other = next(name for name in state.incarnations if name != state.holder)
        began = time.monotonic(), time.time()
        time.sleep(self._chance.random())
        self.changes.append(change(self.stream, other, commits=2))
        time.sleep(max(0.0, began[0] + WINDOW_SECONDS - time.monotonic()))
        self.around.append(Window.beginning(*began))
        began = time.monotonic(), time.time()
        time.sleep(self.around[-1].until - self.around[-1].since)
        self.steady.append(Window.beginning(*began))


def main() -> int:
    """Run the benchmark; 1 when a record was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hand-overs", type=int, default=100)
    options = parser.parse_args()
    before = machine()
    with (
        tempfile.TemporaryDirectory() as root,
        LocalStack(Path(root) / "stack", worker_memory="10g") as stack,
        stack_stream(Path(root) / "main", stack, "seen", rate=RATE) as opened,
        Consumer(stack.bootstrap_servers, f"seen-{QUERY}") as consumer,
    ):
        run = Run(opened)
        run.warm_up()
        for number in range(options.hand_overs):
            run.hand_over()
            if (number + 1) % 10 == 0:
                print(f"{number + 1} hand-overs", flush=True)
        in_topic = opened.audit()
    seen = count(in_topic.produced, ((number, 0.0) for number in consumer.numbers))
    _report(run, consumer, before, {"topic": asdict(in_topic), "consumer": asdict(seen)})
    return int(any(each.lost or each.duplicated for each in (in_topic, seen)))


def _report(run: Run, consumer: Consumer, before: dict[str, Any], records: dict[str, dict[str, int]]) -> None:
    commits = {query: sorted(run.stream.watcher.commits[query].values()) for query in QUERIES}
    found: dict[str, list[float]] = {}
    for side, windows in (("hand-over", run.around), ("steady", run.steady)):
        found[f"{side}, seen"] = [consumer.longest(w.since, w.until) for w in windows]
        found[f"{side}, commits"] = [longest(commits[QUERY], w.since_wall, w.until_wall) for w in windows]
        found[f"{side}, commits of the slower query"] = [
            max(longest(commits[query], w.since_wall, w.until_wall) for query in QUERIES) for w in windows
        ]
    found["crossing"] = [each.crossing[QUERY] for each in run.changes]
    found |= {step: [getattr(each, step) for each in run.changes] for step in STEPS}
    sides = {side: spread(values) for side, values in found.items()}
    lost = max(each["lost"] for each in records.values())
    doubled = max(each["duplicated"] for each in records.values())
    p50 = sides["steady, seen"]["p50"]
    show(
        "the longest time between two records, and between two commits (s)",
        sides,
        {
            "seen: hand-over p50 / steady p50": (sides["hand-over, seen"]["p50"] / p50, "<=", 1.5),
            "seen: hand-over p99 / steady p50": (sides["hand-over, seen"]["p99"] / p50, "<=", 2.5),
            "seen: hand-over p99 / steady p99": (
                sides["hand-over, seen"]["p99"] / sides["steady, seen"]["p99"],
                "<=",
                2,
            ),
            "records lost": (lost, "<=", 0),
            "records doubled": (doubled, "<=", 0),
        },
    )
    by_gap = sorted(zip(found["hand-over, seen"], run.changes, strict=True), key=lambda pair: pair[0], reverse=True)
    for seconds, slow in by_gap[:SLOWEST_SHOWN]:
        steps = ", ".join(f"{step} {getattr(slow, step):.2f}" for step in STEPS)
        print(f"seen {seconds:.2f} s: {steps}, crossing {slow.crossing[QUERY]:.2f}")
    changes = [asdict(each) for each in run.changes]
    write("consumer_gap", {"sides": sides, "changes": changes, "records": records, "machine": before})


if __name__ == "__main__":
    sys.exit(main())
