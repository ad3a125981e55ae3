"""How long a stream stood still with no fault that lasted: from commit to commit, in what a run has recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.batches import Batch
from chaos.plan import TAKE_DOWN


@dataclass(frozen=True)
class Stillness:
    """A time in which a query committed nothing. Times are in seconds since 1970.

    :param since: its last commit, or the end of the last fault if that is later.
    :param until: its next commit.
    :param excused: seconds of that time in which a fault lasted that stops no commits, but may delay a recovery.
    """

    query: str
    since: float
    until: float
    excused: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.until - self.since - self.excused


def stops_commits(target: str) -> bool:
    """Whether a fault on a target can stop commits. One on a part of Airflow can only delay what brings them back."""
    return target not in ("scheduler", "triggerer", "task")


def without(spans: Iterable[tuple[float, float]], since: float, until: float) -> float:
    """Return how many seconds of a time are in none of the spans, each a begin and an end."""
    left = until - since
    for begin, end in sorted(spans):
        begin, end = max(begin, since), min(end, until)
        if begin < end:
            left -= end - begin
            since = end
    return left


def longest_outage(batches: Mapping[str, Iterable[Batch]]) -> float:
    """Return the longest time from a commit of a query to its next one, whatever the faults."""
    return max((after - before for known in batches.values() for before, after in _commits(known)), default=0.0)


def longest_stillness(batches: Mapping[str, Iterable[Batch]], journal: Sequence[Mapping[str, Any]]) -> Stillness:
    """Return the longest of all queries, from the end of the last fault in it on that can stop commits.

    The time in which other faults last, or a run of the form that may leave the stream without a holder, does not count
    either, but what comes after one does not begin anew. It shows what a look after each fault cannot: a stream that
    commits once more after a fault and stands still then.
    """
    healed = {line["id"]: float(line["at"]) for line in journal if line["what"] == "healed"}
    faults: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for line in journal:
        if line["what"] == "fault":
            faults[stops_commits(line["target"])].append((float(line["at"]), healed.get(line["id"], math.inf)))
        if line["what"] == "operation" and line["kind"] in TAKE_DOWN:
            faults[False].append((float(line["at"]) - line["seconds"], float(line["at"])))
    found = [Stillness("", 0.0, 0.0)]
    for query, known in batches.items():
        for before, after in _commits(known):
            over = (min(end, after) for begin, end in faults[True] if begin < after)
            since = max(before, *over, before)
            found.append(Stillness(query, since, after, after - since - without(faults[False], since, after)))
    return max(found, key=lambda each: each.seconds)


def _commits(known: Iterable[Batch]) -> Iterable[tuple[float, float]]:
    return pairwise(sorted(batch.committed for batch in known if batch.committed is not None))
