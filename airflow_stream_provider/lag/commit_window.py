"""Burrow's verdicts from a query's last commits.

Burrow keeps a history of log ends; we keep none and ask Kafka by timestamp where a log ended at the time of a commit.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeVar

from airflow_stream_provider.checkpoint.logs import KafkaOffsets
from airflow_stream_provider.lag.batched_lookup import OffsetSearch
from airflow_stream_provider.lag.burrow import Verdict, evaluate

# Fewer commits show no pace to compare the present silence with.
MIN_COMMITS = 3
# Burrow compares a commit with the last ten log ends, polled every ten seconds: newer records do not make it STOP.
RING_SECONDS = 100.0
# They compare it with the pace of its last commits, which says nothing of one that waits by design.
BY_PACE = (Verdict.STOP, Verdict.STALL)

P = TypeVar("P", bound=tuple[str, int])
Window = Sequence[tuple[float, KafkaOffsets]]


def verdicts(
    window: Window, lags: Mapping[P, int], ends: Mapping[P, int], now: float, quiet_until: float | None = None
) -> OffsetSearch[P, dict[P, Verdict | None]]:
    """Find a verdict for each partition in `lags`; None where there are too few commits yet.

    None, too, instead of those BY_PACE where it is not known how long the query waits by design.

    Past log ends are looked up by timestamp, at most once for each commit, and only for partitions whose verdict
    depends on them; see `test_a_lag_that_becomes_known_never_makes_it_worse_than_a_warning`.

    :param window: time in seconds and offsets of the last commits, oldest first.
    :param lags: records not committed, by partition; a partition is a tuple that begins with topic and number.
    :param ends: the present log ends.
    :param now: seconds since 1970.
    :param quiet_until: until when the query may commit nothing by its own promise; None = not known.
    """
    waits = max(0.0, (quiet_until or 0.0) - window[-1][0]) if window else 0.0
    past: dict[P, dict[int, int]] = {p: {} for p in lags}
    lately: dict[P, int] = {}

    def ends_at(partitions: Sequence[P], seconds: float) -> OffsetSearch[P, dict[P, int]]:
        answers = (yield dict.fromkeys(partitions, round(seconds * 1000))) if partitions else {}
        return {p: answers[p][0] if p in answers else ends[p] for p in partitions}

    def judge(p: P) -> Verdict | None:
        if lags[p] and len(window) < MIN_COMMITS:
            return None
        commits = _commits(window, p, past[p])
        known_ends = [ends[p], lately.get(p, ends[p])]
        commits = commits if len(commits) >= MIN_COMMITS else []
        # The time for which it waits by design is no silence.
        found = evaluate(commits, known_ends, lags[p], now - waits)
        return Verdict.WARN if found is Verdict.STALL and window[-1][0] - window[0][0] < waits else found

    found = {p: judge(p) for p in lags}
    stopped = [p for p, verdict in found.items() if verdict is Verdict.STOP]
    if stopped:
        lately = yield from ends_at(stopped, now - _ring(window))
        found.update({p: judge(p) for p in stopped})
    for number in reversed(range(len(window))):
        unsure = [p for p, verdict in found.items() if verdict in (Verdict.WARN, Verdict.STALL)]
        for p, end in (yield from ends_at(unsure, window[number][0])).items():
            past[p][number] = end
            found[p] = judge(p)
    return {p: None if quiet_until is None and verdict in BY_PACE else verdict for p, verdict in found.items()}


def _commits(window: Window, partition: tuple[str, int], past: Mapping[int, int]) -> list[tuple[int, int, int | None]]:
    commits: list[tuple[int, int, int | None]] = []
    for number, (at, offsets) in enumerate(window):
        offset = offsets.get(partition[0], {}).get(partition[1])
        if offset is not None:
            commits.append((offset, round(at * 1000), max(0, past[number] - offset) if number in past else None))
    return commits


def _ring(window: Window) -> float:
    """Seconds that a log end may lie back for a silent reader not to be STOP: twice its usual pause, at least 100."""
    times = [at for at, _ in window]
    return max(RING_SECONDS, 2 * statistics.median(later - earlier for earlier, later in itertools.pairwise(times)))
