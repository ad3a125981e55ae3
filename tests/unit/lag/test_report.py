from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lag.report import (
    Alarm,
    Ceilings,
    GroupVerdict,
    LagReport,
    PartitionLag,
    PartitionState,
    QueryLag,
    Verdict,
)
from tests.support.lag_reports import read_to


@pytest.mark.parametrize("state", [state for state in PartitionState if not state.known])
def test_what_is_not_known_is_not_zero(state: PartitionState) -> None:
    found = read_to(committed=120, state=state)
    assert found.lag is None
    query = QueryLag("a", (found, read_to(1)))
    assert (query.records, query.max_records, query.complete, query.unknown) == (10, 10, False, (found,))
    assert QueryLag("a", (found,)).records is None
    assert LagReport(0.0, (query, QueryLag("b", (read_to(),), seconds=3.0))).complete is False


def test_a_report_is_that_of_its_slowest_query() -> None:
    slow = QueryLag("slow", (read_to(verdict=Verdict.WARN), read_to(1, verdict=Verdict.OK)), seconds=7.0)
    fast = QueryLag("fast", (read_to(end=91, verdict=Verdict.OK),), seconds=12.0)
    report = LagReport(0.0, (slow, fast))
    assert (report.records, report.seconds, report.complete) == (20, 12.0, True)
    assert report.verdict is GroupVerdict.WARN


@pytest.mark.parametrize(
    ("queries", "verdict"),
    [
        ((), GroupVerdict.UNKNOWN),
        ((QueryLag("a", problem="no checkpoint"),), GroupVerdict.UNKNOWN),
        ((QueryLag("a", problem="no such group", found=False),), GroupVerdict.NOTFOUND),
        ((QueryLag("a", (read_to(),)),), GroupVerdict.UNKNOWN),
        ((QueryLag("a", (read_to(verdict=Verdict.OK),)), QueryLag("b")), GroupVerdict.UNKNOWN),
        ((QueryLag("a", (read_to(verdict=Verdict.STOP),)), QueryLag("b")), GroupVerdict.ERR),
    ],
)
def test_unknown_is_a_verdict_of_its_own(queries: tuple[QueryLag, ...], verdict: GroupVerdict) -> None:
    report = LagReport(0.0, queries)
    assert report.verdict is verdict
    assert report.unread_before(1.0) is None


@pytest.mark.parametrize(
    ("queries", "wanted"),
    [
        ((True, False), True),
        ((True, None), True),
        ((False, False), False),
        ((False, None), None),
        ((), None),
    ],
)
def test_one_query_with_an_unread_record_is_enough_and_one_that_is_unknown_is_not(
    queries: tuple[bool | None, ...], wanted: bool | None
) -> None:
    report = LagReport(0.0, tuple(QueryLag(str(n), unread_before={5.0: each}) for n, each in enumerate(queries)))
    assert report.unread_before(5.0) is wanted
    assert report.unread_before(6.0) is None, "it was not asked"


def test_an_age_that_was_asked_for_goes_before_the_estimate() -> None:
    estimated = QueryLag("a", (read_to(),), seconds=9.0)
    assert [estimated.older(8.0), estimated.older(9.0)] == [True, False]
    assert replace(estimated, unread_for={8.0: False, 9.0: None}).older(8.0) is False
    assert replace(estimated, unread_for={8.0: False, 9.0: None}).older(9.0) is None
    assert replace(estimated, ages_known=False).older(8.0) is True, "a lower bound that is beyond it is enough"
    assert replace(estimated, ages_known=False).older(10.0) is None


GOOD = QueryLag("a", (read_to(),), commit_age=5.0, seconds=5.0, retention_seconds=1e6, held_seconds=0.0)


@pytest.mark.parametrize(
    ("query", "alarms"),
    [
        (GOOD, ()),
        (replace(GOOD, commit_age=61.0, seconds=61.0), (Alarm.COMMIT_AGE,)),
        (replace(GOOD, commit_age=90_000.0, seconds=1.0), ()),  # idle for a day, and a record has just come
        (replace(GOOD, commit_age=1.0, seconds=90_000.0), ()),  # far behind, and reading
        (replace(GOOD, retention_seconds=3599.0), (Alarm.RETENTION,)),
        (replace(GOOD, retention_seconds=None), ()),
        (replace(GOOD, retention_seconds=1790.0, retained=1800.0), ()),  # all that waits goes within the hour
        (replace(GOOD, retention_seconds=899.0, retained=1800.0), (Alarm.RETENTION,)),
        (replace(GOOD, held_seconds=961.0), (Alarm.STUCK_TRANSACTION,)),
        (replace(GOOD, partitions=(read_to(committed=0, log_start=1),)), (Alarm.LOST_DATA,)),
    ],
)
def test_what_burrow_does_not_see(query: QueryLag, alarms: tuple[Alarm, ...]) -> None:
    assert query.alarms(Ceilings(commit_age=60.0)) == alarms


@pytest.mark.parametrize(
    ("query", "undecided"),
    [
        (GOOD, ()),
        (replace(GOOD, commit_age=None, seconds=90_000.0), (Alarm.COMMIT_AGE,)),
        (replace(GOOD, commit_age=None), ()),  # every unread record is younger than the ceiling
        (replace(GOOD, commit_age=61.0, ages_known=False), (Alarm.COMMIT_AGE,)),
        (replace(GOOD, commit_age=59.0, ages_known=False), ()),
        (replace(GOOD, retention_known=False), (Alarm.RETENTION,)),
        (replace(GOOD, retention_known=False, retention_seconds=3599.0), ()),  # raised, whatever else is unknown
        (replace(GOOD, partitions=(read_to(held=5),), held_seconds=None), (Alarm.STUCK_TRANSACTION,)),
        (replace(GOOD, partitions=(read_to(held=0),), held_seconds=None), ()),
    ],
)
def test_an_alarm_that_cannot_be_judged_is_unknown(query: QueryLag, undecided: tuple[Alarm, ...]) -> None:
    assert query.undecided(Ceilings(commit_age=60.0)) == undecided
    assert not set(undecided) & set(query.alarms(Ceilings(commit_age=60.0)))


def test_without_a_ceiling_the_age_of_commits_is_not_judged() -> None:
    assert replace(GOOD, commit_age=1e9, seconds=1e9).alarms(Ceilings()) == ()


numbers = st.none() | st.integers(0, 2**62)
seconds = st.none() | st.floats(0, 1e9)
partitions = st.builds(
    PartitionLag,
    st.text(max_size=5),
    st.integers(0, 9),
    st.sampled_from(PartitionState),
    numbers,
    numbers,
    numbers,
    numbers,
    seconds,
    seconds,
    st.none() | st.sampled_from(Verdict),
)
queries = st.builds(
    QueryLag,
    st.text(max_size=5),
    st.lists(partitions, max_size=4).map(tuple),
    seconds,
    numbers,
    seconds,
    seconds,
    seconds,
    st.text(max_size=5),
    st.booleans(),
)
reports = st.builds(LagReport, st.floats(0, 2e9), st.lists(queries, max_size=3).map(tuple))


@given(reports)
def test_no_lag_is_negative_and_no_sum_hides_an_unknown(report: LagReport) -> None:
    for query in report.queries:
        known = [p.lag for p in query.partitions if p.lag is not None]
        assert all(lag >= 0 for lag in known)
        assert query.records == (sum(known) if known else None)
        assert query.lost >= 0
        assert query.complete == (bool(query.partitions) and len(known) == len(query.partitions))


def test_the_lag_is_what_is_there_and_not_committed() -> None:
    found = read_to()
    assert (found.lag, found.raw_lag, found.lost, found.position) == (10, 10, 0, 90)


def test_records_deleted_unread_are_lost_and_no_lag() -> None:
    found = read_to(committed=20, log_start=70)
    assert (found.lag, found.raw_lag, found.lost, found.position) == (30, 80, 50, 70)


def test_a_new_partition_counts_from_its_start() -> None:
    found = read_to(committed=None, log_start=5, state=PartitionState.NEW_PARTITION)
    assert (found.lag, found.raw_lag, found.lost) == (95, None, 0)


def test_the_raw_lag_of_a_topic_made_anew_is_kept() -> None:
    assert read_to(committed=120, state=PartitionState.AHEAD_OF_END).raw_lag == -20
