"""How long a stream stood still with no fault that lasted: from commit to commit, in what a run has recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.batches import Batch


@dataclass(frozen=True)
class Stillness:
    """A time in which a query committed nothing. Times are in seconds since 1970.

    :param since: its last commit, or the end of the last fault if that is later.
    :param until: its next commit.
    """

    query: str
    since: float
    until: float

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.until - self.since


def longest_stillness(batches: Mapping[str, Iterable[Batch]], journal: Sequence[Mapping[str, Any]]) -> Stillness:
    """Return the longest of all queries, with the time taken out up to the end of the last fault in it.

    It shows what a look after each fault cannot: a stream that commits once more after a fault and stands still then.
    """
    healed = {line["id"]: float(line["at"]) for line in journal if line["what"] == "healed"}
    faults = [(float(line["at"]), healed.get(line["id"], math.inf)) for line in journal if line["what"] == "fault"]
    found = [Stillness("", 0.0, 0.0)]
    for query, known in batches.items():
        commits = sorted(batch.committed for batch in known if batch.committed is not None)
        for before, after in pairwise(commits):
            over = (min(end, after) for begin, end in faults if begin < after)
            found.append(Stillness(query, max(before, *over, before), after))
    return max(found, key=lambda each: each.seconds)
