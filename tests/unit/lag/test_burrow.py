from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lag.burrow import GroupVerdict, Verdict, evaluate, group_verdict

OK, WARN, STOP, STALL, REWIND = Verdict.OK, Verdict.WARN, Verdict.STOP, Verdict.STALL, Verdict.REWIND
Commit = tuple[int, int, int | None]


def window(*commits: tuple[int, int | None], every: int = 100) -> list[Commit]:
    """Commits of (offset, lag), `every` seconds apart, the first at that many seconds."""
    return [(offset, (i + 1) * every * 1000, lag) for i, (offset, lag) in enumerate(commits)]


MOVING = window((1000, 0), (2000, 50), (3000, 100), (4000, 150), (5000, 200))
FALLING = window((1000, 50), (2000, 100), (3000, 150), (4000, 200), (5000, 250))
STANDING = window((1000, 50), (1000, 100), (1000, 150), (1000, 200), (1000, 250))


# (commits, end offsets, current lag, now, allowed lag, verdict): the shape of Burrow's own table, and its boundaries.
TABLE: list[tuple[list[Commit], list[int], int, float, int, Verdict]] = [
    (MOVING, [5200], 200, 600, 0, OK),  # lag was zero within the window
    (MOVING, [5000], 0, 600, 0, OK),
    (FALLING, [5250], 0, 10**6, 0, OK),  # rule 0: no lag now, whatever the history
    (STANDING, [1250], 250, 600, 250, OK),  # only thanks to the allowed lag
    (STANDING, [1251], 251, 600, 250, OK),  # the allowed lag counts as zero in the window too
    (STANDING, [1250], 250, 600, 49, STALL),
    (window((1000, 50), (2000, 40), (3000, 60), (4000, 70)), [4070], 70, 450, 0, OK),  # the lag shrank once
    (window((1000, 50), (2000, 50), (3000, 50)), [3050], 50, 350, 0, WARN),  # equal is not shrinking
    (FALLING, [5250], 250, 600, 0, WARN),
    (
        window((1000, None), (2000, None), (3000, None)),
        [3050],
        50,
        350,
        0,
        WARN,
    ),  # never seen to be zero, nor to shrink
    (window((1000, 50), (2000, None), (3000, 40)), [3040], 40, 350, 0, OK),  # from one known lag to the next
    (window((1000, 50), (2000, None), (3000, 60)), [3060], 60, 350, 0, WARN),
    (STANDING, [1250], 250, 600, 0, STALL),
    (window((1000, 0), (1000, 100), (1000, 150)), [1150], 150, 350, 0, OK),  # once zero: not stalled
    (MOVING, [5200], 200, 900, 0, OK),  # silent for exactly as long as the window spans
    (MOVING, [5200], 200, 900.001, 0, STOP),  # though lag was zero within the window
    (MOVING, [5200, 5000], 200, 10**6, 0, OK),  # the end was at the commit lately: the topic is slow
    (MOVING, [5200, 5001], 200, 10**6, 0, STOP),
    (MOVING, [], 200, 10**6, 0, STOP),
    (window((1000, 50)), [1050], 50, 100.001, 0, STOP),  # a window of one commit spans nothing
    (window((1000, 50)), [1050], 50, 100, 0, STALL),
    (window((3000, 0), (2000, 0), (2500, 0)), [2600], 100, 350, 0, REWIND),  # though lag was zero
    (window((3000, 0), (2000, 10), (3000, 10)), [3010], 10, 350, 0, OK),  # made good
    (window((3000, 9), (2000, 9), (3000, 9), (2500, 9)), [2600], 100, 450, 0, WARN),  # only the first is looked at
    (window((3000, 0), (2000, 0)), [2600], 600, 10**6, 0, STOP),  # before REWIND
    ([], [10], 10, 100, 0, OK),
]


@pytest.mark.parametrize(("commits", "ends", "lag", "now", "allowed", "verdict"), TABLE)
def test_burrows_rules(
    commits: list[Commit], ends: list[int], lag: int, now: float, allowed: int, verdict: Verdict
) -> None:
    assert evaluate(commits, ends, lag, now, allowed) is verdict


offsets = st.integers(0, 50)
lags = st.none() | st.integers(0, 20)


@st.composite
def windows(draw: st.DrawFn) -> list[Commit]:
    times = sorted(draw(st.lists(st.integers(0, 100_000), min_size=1, max_size=10)))
    return [(draw(offsets), at, draw(lags)) for at in times]


@given(windows(), st.lists(offsets), st.integers(0, 60), st.floats(100, 1000), st.integers(0, 60))
def test_up_to_the_allowed_lag_all_is_well(
    commits: Sequence[Commit], ends: list[int], lag: int, now: float, allowed: int
) -> None:
    assert lag > allowed or evaluate(commits, ends, lag, now, allowed) is OK


@given(windows(), st.lists(offsets), st.integers(1, 60), st.floats(100, 1000), st.integers(0, 9))
def test_a_lag_that_becomes_known_never_makes_it_worse_than_a_warning(
    commits: Sequence[Commit], ends: list[int], lag: int, now: float, position: int
) -> None:
    """What `kafka.lag` relies on: it asks for old lags only while the verdict without them is WARN or STALL."""
    blank = [(offset, at, None) for offset, at, _ in commits]
    before, after = evaluate(blank, ends, lag, now), evaluate(commits, ends, lag, now)
    assert after is before or (before in (WARN, STALL) and after is OK)
    newest = [*blank[:position], *commits[position:]]
    if evaluate(newest, ends, lag, now) is OK:
        assert after is OK


@given(windows(), st.lists(offsets, min_size=1), st.integers(1, 60), st.floats(100, 1000))
def test_a_stop_ends_with_an_end_that_was_reached(
    commits: Sequence[Commit], ends: list[int], lag: int, now: float
) -> None:
    assert evaluate(commits, [*ends, commits[-1][0]], lag, now) is not STOP


@given(windows(), st.lists(offsets), st.integers(1, 60), st.floats(100, 1000), st.integers(1, 10**6))
def test_only_differences_count(commits: Sequence[Commit], ends: list[int], lag: int, now: float, shift: int) -> None:
    moved = [(offset + shift, at, known) for offset, at, known in commits]
    assert evaluate(moved, [end + shift for end in ends], lag, now) is evaluate(commits, ends, lag, now)


@pytest.mark.parametrize(
    ("verdicts", "group"),
    [
        ([], GroupVerdict.OK),
        ([OK, OK], GroupVerdict.OK),
        ([OK, WARN], GroupVerdict.WARN),
        *(([OK, WARN, bad, None], GroupVerdict.ERR) for bad in (STOP, STALL, REWIND)),
        ([OK, None], GroupVerdict.UNKNOWN),
        ([WARN, None], GroupVerdict.WARN),  # what is unknown does not hide what is bad
    ],
)
def test_the_worst_partition_counts_for_the_group(verdicts: list[Verdict | None], group: GroupVerdict) -> None:
    assert group_verdict(verdicts) is group
