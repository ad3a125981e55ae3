"""What runs out, and when: of made-up looks at a driver."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals
from airflow_stream_provider.monitoring.trends import (
    LEAST_POINTS,
    LEAST_SECONDS,
    POINTS,
    Trace,
    Trend,
    levels,
    symptom_of,
    trends,
)

MB = 10**6
HOUR, DAY = 3600.0, 86400.0


def watched(heap: Callable[[float], float], seconds: float, every: float = 60.0) -> tuple[Trend, ...]:
    """Look at a driver so long, and return the trends that the last look finds."""
    trace, at, found = Trace(), 0.0, tuple[Trend, ...]()
    while at <= seconds:
        vitals = Vitals(heap_after_gc=int(heap(at)), heap_max=1000 * MB)
        now = levels(vitals, None)
        trace = trace.after("d.1", at, {name: level.value for name, level in now.items()})
        found = trends(trace, now, vitals, at)
        at += every
    return found


@pytest.mark.parametrize("hours", [1, 5, 24, 24 * 9])
def test_a_steady_leak_is_foretold_whatever_time_was_seen(hours: int) -> None:
    """Full after ten days; the trace stays small, and covers all of it."""
    full = 10 * DAY
    found = watched(lambda at: 200 * MB + 800 * MB * at / full, hours * HOUR)
    rest = full - hours * HOUR
    # It reaches 20 times as far ahead as the driver was looked at.
    assert [each.name for each in found] == (["heap"] if rest <= 20 * hours * HOUR else [])
    for each in found:
        assert each.seconds == pytest.approx(rest, rel=0.01)


def test_a_noisy_leak_with_wild_values_is_foretold() -> None:
    chance = random.Random(36)

    def heap(at: float) -> float:
        wild = chance.random() < 0.15
        return 900 * MB if wild else 200 * MB + 800 * MB * at / (4 * DAY) + chance.gauss(0, 8 * MB)

    (found,) = watched(heap, 2 * DAY)
    assert found.seconds == pytest.approx(2 * DAY, rel=0.2)


def test_what_only_goes_up_and_down_or_has_been_filled_has_no_trend() -> None:
    chance = random.Random(36)
    assert watched(lambda at: 500 * MB + chance.gauss(0, 30 * MB), 2 * DAY) == ()
    assert watched(lambda at: min(at / DAY, 1.0) * 700 * MB, 3 * DAY) == ()
    assert watched(lambda at: 900 * MB - 100 * at, 2 * DAY) == (), "less and less"


def test_a_leak_that_grows_is_foretold_by_its_newer_half() -> None:
    (found,) = watched(lambda at: 200 * MB + 800 * MB * (at / (4 * DAY)) ** 2, 3 * DAY)
    by_all = 350 / 450 * 3 * DAY
    assert DAY < found.seconds < 0.7 * by_all


def test_nothing_is_foretold_of_little() -> None:
    def leak(at: float) -> float:
        return 200 * MB + at * 30_000

    assert watched(leak, LEAST_SECONDS - 60.0) == ()
    assert watched(leak, LEAST_SECONDS, every=LEAST_SECONDS / (LEAST_POINTS - 2)) == ()
    assert [each.name for each in watched(leak, LEAST_SECONDS)] == ["heap"]


def test_another_driver_begins_anew_and_a_trace_stays_small() -> None:
    trace = Trace()
    for minute in range(5000):
        trace = trace.after("d.1", 60.0 * minute, {"heap": float(minute), "state": 1.0})
        assert len(trace.times) <= POINTS
        assert trace.times[-1] == 60.0 * minute, "the last look is in it"
    assert trace.times[0] < 5000 * 60.0 / 4
    assert Trace.from_json(trace.to_json()) == trace
    assert trace.after("d.1", trace.times[-1], {"heap": 1.0}) == trace, "the same look"
    other = trace.after("d.2", 400_000.0, {"heap": 7.0})
    assert (other.driver, other.times, other.values) == ("d.2", (400_000.0,), {"heap": (7.0,)})


def test_a_value_that_is_not_known_at_each_look_is_foretold_by_the_others() -> None:
    trace, at = Trace(), 0.0
    while at <= 2 * HOUR:
        trace = trace.after("d", at, {"heap": 1.0} | ({} if at % 420 == 0 else {"log_disk": 1e9 - 1e5 * at}))
        at += 60.0
    (found,) = trends(trace, levels(Vitals(log_free=int(1e9 - 1e5 * 2 * HOUR)), None), None, 2 * HOUR)
    assert (found.name, round(found.seconds)) == ("log_disk", 2800)


def test_each_limit_has_a_sentence() -> None:
    vitals = Vitals(
        heap_after_gc=600 * MB,
        heap_max=1000 * MB,
        log_free=50 * MB,
        local_free=60 * MB,
        executor_memory=2000 * MB,
        certificate_until=5 * DAY + HOUR,
        token_until=2 * DAY + HOUR,
        queries={"q": QueryVitals(state_rows=10**6, state_bytes=500 * MB, sink_log_bytes=200 * MB)},
    )
    partition = PartitionLag("orders", 0, PartitionState.OK, committed=5, log_start=0, end=9)
    report = LagReport(HOUR, queries=(QueryLag("q", (partition,), retention_seconds=5 * HOUR),))
    now = levels(vitals, report)
    paces = {"heap": 5, "log_disk": -9, "local_disk": -6, "state": 1, "sink_log/q": 64, "offsets/q": -1e-6}
    trace = Trace()
    for minute in range(61):
        at = 60.0 * minute
        values = {name: level.value + paces[name] * MB * (minute - 60) / 60 for name, level in now.items()}
        trace = trace.after("d", at, values | {"offsets/q": 5 * HOUR + (HOUR - at)})
    found = trends(trace, now, vitals, HOUR)
    assert [each.sentence for each in found] == [
        "The state is as large as the executors' memory in 3 h.",
        "What the query q reads next of orders is deleted before it is read in 5 h.",
        "The disk of the driver's log is full in 5 h 33 min: 50 MB are free, and 9.0 MB less an hour.",
        "The disk of the driver's local folder is full in 10 h: 60 MB are free, and 6.0 MB less an hour.",
        "The log of the file sink of q is as large as the driver's heap in 12 h 30 min: 200 of 1,000 MB, and 64.0 MB "
        "more an hour.",
        "A delegation token ends in 2 d.",
        "A certificate of a Kafka source ends in 5 d.",
    ]
    assert found[-2].seconds == 2 * DAY


def test_people_are_told_again_of_what_is_new_and_of_what_is_soon() -> None:
    (slow,) = watched(lambda at: 200 * MB + 800 * MB * at / (10 * DAY), 5 * DAY)
    assert symptom_of((), {}, refresh=False).health is Health.PASS
    told = symptom_of([slow], {"heap": slow.seconds}, refresh=False)
    assert (told.health, told.worse) == (Health.FAIL, False)
    assert told.description == (
        "The heap is full in 5 d: 600 of 1,000 MB, and 3.3 MB more an hour. A fresh driver has a fresh heap: redeploy "
        "the release that runs, or set `upgrade.refresh: auto`."
    )
    assert symptom_of([slow], {"log_disk": 5.0}, refresh=False).worse
    (soon,) = watched(lambda at: 200 * MB + 800 * MB * at / (2 * DAY), 1.6 * DAY)
    assert symptom_of([soon], {"heap": 1.5 * DAY}, refresh=False).worse
    assert not symptom_of([soon], {"heap": soon.seconds}, refresh=False).worse
    by_itself = symptom_of([soon], {}, refresh=True).description
    assert by_itself.endswith(
        "A fresh driver of the same release takes over when the heap has 6 h left, and this one is as old."
    )
