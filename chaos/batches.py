"""The micro-batches of a query: what each read, when it was planned, and when it was committed."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True)
class Batch:
    """One micro-batch. Times are those of Spark's files, in seconds since 1970.

    :param ends: by partition of the input, the offset after the last record of this batch.
    :param planned: when it was planned, by whoever planned it; who runs it again finds the plan.
    :param committed: when it was committed; None: it was not, as far as was seen.
    """

    number: int
    ends: Mapping[int, int]
    planned: float
    committed: float | None = None

    def open_within(self, since: float, until: float) -> bool:
        """Whether it was planned, and not committed, at some moment between two times."""
        return self.planned <= until and (self.committed is None or self.committed >= since)


class Batches:
    """The batches of one query, to be searched by a record of the input.

    :param found: in any order; some may be missing. Who plans a batch has committed the one before it, so one whose
        commit nobody saw was committed by the time of the next plan.
    """

    def __init__(self, found: Iterable[Batch]) -> None:
        known = sorted(found, key=lambda batch: batch.number)
        self._found = [
            replace(batch, committed=after.planned) if batch.committed is None else batch
            for batch, after in pairwise(known)
        ] + known[-1:]
        numbers = [batch.number for batch in self._found]
        self.missing: tuple[int, ...] = tuple(
            sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else ()
        )
        """The numbers between the first and the last one that nobody has seen."""

    def open_at(self, at: float) -> Batch | None:
        """Return the batch that was planned last at a time; None when there was none."""
        return max((batch for batch in self._found if batch.planned <= at), key=lambda each: each.number, default=None)

    def holding(self, partition: int, offset: int) -> Batch | None:
        """Return the batch that read a record of the input; None when that is not known."""
        at = bisect.bisect_right(self._found, offset, key=lambda batch: batch.ends.get(partition, 0))
        if at == len(self._found):
            return None
        batch = self._found[at]
        return batch if batch.number == 0 or (at and self._found[at - 1].number == batch.number - 1) else None
