"""Answer the offset searches of many queries with shared ListOffsets requests.

A search is a generator: it yields a time for each partition and is sent, for each, the first record that is not older.
All searches that wait for an answer share one request, so measuring hundreds of queries takes as many requests as the
longest search needs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

P = TypeVar("P", bound=Hashable)
R = TypeVar("R")

# Takes a time (milliseconds since 1970) for each partition; returns the offset and the time of the first record that is
# not older. A partition that has no such record, or cannot be read, is left out of the answer.
Lookup = Callable[[Mapping[P, int]], Mapping[P, tuple[int, int]]]
OffsetSearch = Generator[Mapping[P, int], Mapping[P, tuple[int, int]], R]


def search_together(lookup: Lookup[P], searches: Sequence[OffsetSearch[P, Any]]) -> list[Any]:
    """Run the searches side by side and return the result of each.

    Searches share a request unless they ask for different times of one partition: a request holds only one time for
    each partition.
    """
    results: list[Any] = [None] * len(searches)
    waiting: dict[int, Mapping[P, int]] = {}

    def advance(number: int, answers: Mapping[P, tuple[int, int]] | None) -> None:
        try:
            # A generator that has not started takes no answer.
            waiting[number] = next(searches[number]) if answers is None else searches[number].send(answers)
        except StopIteration as finished:
            results[number] = finished.value

    for number in range(len(searches)):
        advance(number, None)
    while waiting:
        asked, waiting = waiting, {}
        for batch, numbers in _batches(asked.items()):
            answers = lookup(batch)
            for number in numbers:
                advance(number, {p: answers[p] for p in asked[number] if p in answers})
    return results


def _batches(asked: Iterable[tuple[int, Mapping[P, int]]]) -> list[tuple[dict[P, int], list[int]]]:
    batches: list[tuple[dict[P, int], list[int]]] = []
    for number, times in asked:
        for batch, numbers in batches:
            if all(batch.get(p, at) == at for p, at in times.items()):
                batch.update(times)
                numbers.append(number)
                break
        else:
            batches.append((dict(times), [number]))
    return batches
