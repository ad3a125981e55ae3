"""A stream whose driver gives no sign of life is not called running."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.health import (
    SILENT,
    SignOfLife,
    moved_after,
    phase_words,
    sample_of,
    sign_of_life,
    silent_since,
)
from airflow_stream_provider.monitoring.samples import LagSample
from tests.support.snapshots import snapshot
from tests.support.story import OLD, REQUESTED, RUNNING, STARTED, STOPPED, failed

NOW = 10_000.0


def sign(
    age: float | None, *samples: tuple[float, int], records: list[Record] = RUNNING, counter: int = 6
) -> SignOfLife:
    """What is shown of a driver whose heartbeat is so old, by its own clock; samples: seconds ago, counter."""
    beats = {} if age is None else {OLD: Heartbeat(counter=counter, at=NOW - age)}
    last = None
    for ago, seen in samples:
        last = looked(last, NOW - ago, seen)
    return sign_of_life(replace(snapshot(*records, at=NOW), heartbeats=beats), last)


def looked(before: LagSample | None, at: float, counter: int) -> LagSample:
    """What the watch keeps of a look that saw this counter."""
    found = replace(snapshot(*RUNNING, at=at), heartbeats={OLD: Heartbeat(counter=counter)})
    return sample_of(found, None, before, LagLimits(), {})


@pytest.mark.parametrize(
    ("age", "phase", "words"),
    [
        (1.0, "running", "running"),
        (59.0, "running", "running"),
        (61.0, SILENT, "silent for 1 min 1 s"),
        (2400.0, SILENT, "silent for 40 min"),
        (None, SILENT, "silent"),
    ],
)
def test_a_holder_is_running_only_if_it_gave_a_sign_of_life_lately(age: float | None, phase: str, words: str) -> None:
    found = sign(age)
    assert (found, phase_words(phase, age)) == (SignOfLife(phase, age), words)


@pytest.mark.parametrize(
    ("age", "samples", "shown", "phase"),
    [
        # Its clock is behind by an hour; the looks have seen the counter grow.
        (3600.0, [(70.0, 1), (10.0, 5)], 10.0, "running"),
        # Its clock is ahead; the looks have seen the counter stand still.
        (-3600.0, [(190.0, 5), (130.0, 6), (70.0, 6), (10.0, 6)], 130.0, SILENT),
        (-5.0, [], 0.0, "running"),
    ],
    ids=["behind", "ahead", "ahead and never looked at"],
)
def test_a_clock_that_is_wrong_makes_no_dead_driver_run_and_no_living_one_silent(
    age: float, samples: list[tuple[float, int]], shown: float, phase: str
) -> None:
    assert sign(age, *samples) == SignOfLife(phase, shown)


@pytest.mark.parametrize(
    ("records", "phase"),
    [
        (REQUESTED, "handing_over"),
        ([*RUNNING, failed(OLD)], "failed"),
        (STOPPED, "stopped"),
    ],
)
def test_other_phases_keep_their_word_and_show_the_age(records: list[Record], phase: str) -> None:
    assert sign(2400.0, records=records) == SignOfLife(phase, 2400.0)


def test_where_nobody_ever_held_there_is_no_age() -> None:
    assert sign(5.0, records=STARTED) == SignOfLife("empty", None)
    assert phase_words("empty", None) == "empty"


@pytest.mark.parametrize("pause", [5.0, 30.0, 59.0, 300.0])
def test_silence_adds_up_over_all_looks_that_saw_the_same(pause: float) -> None:
    last = None
    for at, counter in [(10.0, 6), (20.0, 4), *((100.0 + pause * n, 6) for n in range(4))]:
        last = looked(last, at, counter)
    assert silent_since(last, OLD, 6) == 100.0
    assert moved_after(last, OLD, 6) == 20.0
    assert silent_since(last, OLD, 7) is None
    assert last is not None
    assert moved_after(last, OLD, 7) == last.at
    assert silent_since(None, OLD, 6) is None
    assert moved_after(None, OLD, 6) is None


def test_a_sample_of_a_version_that_did_not_know_since_when_counts_from_itself() -> None:
    assert silent_since(LagSample(50.0, counters={OLD: 6}), OLD, 6) == 50.0
