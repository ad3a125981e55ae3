"""Questions of many who do not know of each other, put to Kafka together: as many requests as the longest one needs.

Who asks is a generator: it yields times by partition and gets, for each, the first record that is not older. That is
how hundreds of queries are measured with the requests of one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

P = TypeVar("P", bound=Hashable)
R = TypeVar("R")

# Needs for the first record not older than a time (milliseconds since 1970): its offset and its time. A partition that
# has no such record, or cannot be read, is left out of the answer.
Lookup = Callable[[Mapping[P, int]], Mapping[P, tuple[int, int]]]
Asking = Generator[Mapping[P, int], Mapping[P, tuple[int, int]], R]


def look_up_together(lookup: Lookup[P], askings: Sequence[Asking[P, Any]]) -> list[Any]:
    """Return what each of them has found out.

    Those who wait for an answer share a request, unless they ask for different times of one partition: a request holds
    but one.
    """
    results: list[Any] = [None] * len(askings)
    waiting: dict[int, Mapping[P, int]] = {}

    def go_on(number: int, answers: Mapping[P, tuple[int, int]] | None) -> None:
        try:
            # The first time, nothing has been asked yet.
            waiting[number] = next(askings[number]) if answers is None else askings[number].send(answers)
        except StopIteration as over:
            results[number] = over.value

    for number in range(len(askings)):
        go_on(number, None)
    while waiting:
        asked, waiting = waiting, {}
        for batch, numbers in _batches(asked.items()):
            answers = lookup(batch)
            for number in numbers:
                go_on(number, {p: answers[p] for p in asked[number] if p in answers})
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
