"""Judge whether a consumer keeps up, by the rules of LinkedIn's Burrow. Pure.

The rules are those of `core/internal/evaluator/caching.go` (`calculatePartitionStatus`) at commit ced55ba; Burrow's
wiki is older than its code and lacks REWIND. They compare a consumer with its own pace: no threshold has to be set, and
a quiet topic raises no alarm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from enum import StrEnum


class Verdict(StrEnum):
    """Burrow's status of one partition."""

    OK = "OK"
    WARN = "WARN"  # commits, and falls behind: the lag did not shrink once within the window
    STOP = "STOP"  # no commit for longer than the whole window spans
    STALL = "STALL"  # commits the same offset again and again
    REWIND = "REWIND"  # the committed offset went back and has not caught up with where it was


class GroupVerdict(StrEnum):
    """The status of all partitions together: Burrow's four, and UNKNOWN, which we add."""

    NOTFOUND = "NOTFOUND"  # Kafka has no commit of this group
    OK = "OK"
    UNKNOWN = "UNKNOWN"  # some partition could not be read or judged, and no other one is bad
    WARN = "WARN"
    ERR = "ERR"


def evaluate(
    commits: Sequence[tuple[int, int, int | None]],
    end_offsets: Sequence[int],
    current_lag: int,
    now: float,
    allowed_lag: int = 0,
) -> Verdict:
    """Return Burrow's verdict on one partition.

    :param commits: the last commits, oldest first: (offset, time in milliseconds, lag at that time or None).
    :param end_offsets: recent log ends of the partition, in any order.
    :param current_lag: records between the newest commit and the newest end, never negative.
    :param now: seconds since 1970.
    :param allowed_lag: a lag of at most so many records is always OK.
    """
    if current_lag <= allowed_lag or not commits:
        return Verdict.OK
    offsets = [offset for offset, _, _ in commits]
    if _stopped(commits, now) and not any(end <= offsets[-1] for end in end_offsets):
        return Verdict.STOP
    if _rewound(offsets):
        return Verdict.REWIND
    lags = [lag for _, _, lag in commits if lag is not None]
    if any(lag <= allowed_lag for lag in lags):
        return Verdict.OK
    if len(set(offsets)) == 1:
        return Verdict.STALL
    if all(later >= earlier for earlier, later in itertools.pairwise(lags)):
        return Verdict.WARN
    return Verdict.OK


def group_verdict(verdicts: Iterable[Verdict | None]) -> GroupVerdict:
    """Return the verdict on a whole group, or query.

    :param verdicts: one for each partition, None for one that is unknown.
    """
    found = set(verdicts)
    if found & {Verdict.STOP, Verdict.STALL, Verdict.REWIND}:
        return GroupVerdict.ERR
    if Verdict.WARN in found:
        return GroupVerdict.WARN
    return GroupVerdict.UNKNOWN if None in found else GroupVerdict.OK


def _stopped(commits: Sequence[tuple[int, int, int | None]], now: float) -> bool:
    first, last = commits[0][1], commits[-1][1]
    return now * 1000 - last > last - first


def _rewound(offsets: Sequence[int]) -> bool:
    """Whether the offsets have not recovered from their first step back; as in Burrow, later steps do not count."""
    for i in range(1, len(offsets)):
        if offsets[i] < offsets[i - 1]:
            return max(offsets[i:]) < offsets[i - 1]
    return False
