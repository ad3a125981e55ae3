"""What the watch makes of one look: a sample, judged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from airflow_stream_provider.lag.limits import Health, LagLimits, LagLook
from airflow_stream_provider.lag.report import PartitionLag
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryHealth, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.health import ILLEGAL_SECONDS, found_symptoms, sample_of
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_lag
from tests.support.lag_reports import partition, report
from tests.support.snapshots import snapshot
from tests.support.story import NEW, OLD, RUNNING, STOPPED, acquired, failed, play

LIMITS = LagLimits(max_records=10)


def looked(*partitions: PartitionLag) -> LagLook:
    found = report(*partitions)
    return LagLook(found.at, found)


def sample(lag: LagLook | None, before: LagSample | None = None, records: list[Record] = RUNNING) -> LagSample:
    found = replace(snapshot(*records, at=1000.0), heartbeats={OLD: Heartbeat(counter=6)})
    return judged(found, lag, before)


def judged(
    found: Snapshot, lag: LagLook | None, before: LagSample | None, explained: Collection[IncidentKind] = ()
) -> LagSample:
    judgement = judge_lag(found, lag.report, LIMITS, lag.problem) if lag else None
    return sample_of(found, lag, before, LIMITS, found_symptoms(found, judgement, before, 0.0), explained)


@pytest.mark.parametrize(
    ("lag", "health"),
    [
        (looked(partition(10)), Health.PASS),
        (looked(partition(11)), Health.FAIL),
        (looked(partition(None)), Health.UNKNOWN),
        (LagLook(5.0, None, "Kafka is away."), Health.UNKNOWN),
        (None, Health.UNKNOWN),
    ],
)
def test_the_health_is_judged_at_the_look_and_kept(lag: LagLook | None, health: Health) -> None:
    assert LagSample.from_json(sample(lag).to_json()).health is health


def test_a_sample_keeps_the_stream_the_queries_and_the_counters() -> None:
    found = sample(looked(partition(3)))
    assert (found.phase, found.version, found.counters) == ("running", "1", {OLD: 6})
    assert found.queries == {"enrich": QuerySample(3, 5.0, "OK")}
    assert sample(LagLook(5.0, None, "Kafka is away.")).problem == "Kafka is away."


def test_a_lag_of_a_stream_that_was_stopped_is_kept_and_opens_nothing() -> None:
    found = sample(looked(partition(11)), records=STOPPED)
    assert (found.health, found.open_incidents) == (Health.FAIL, {})


def test_people_are_told_of_illegal_records_for_hours_after_the_last_one() -> None:
    forged = acquired(NEW, "forged", 7).numbered(len(RUNNING) + 1)
    found = replace(snapshot(*RUNNING, at=1000.0), state=fold([forged], play(RUNNING)))
    last = sample(None)
    assert last.open_incidents == {}
    for at in (1000.0, 1060.0, 1000.0 + ILLEGAL_SECONDS - 1):
        last = judged(replace(found, at=at), None, last)
        assert "log" in last.open_incidents
        last = LagSample.from_json(last.to_json())
    assert last.illegal == 1
    assert "log" not in judged(replace(found, at=1000.0 + ILLEGAL_SECONDS), None, last).open_incidents


def test_what_something_else_explains_opens_no_incident_and_closes_none() -> None:
    down = snapshot(*RUNNING, failed(OLD), at=1000.0)
    away = LagLook(5.0, None, "Kafka is away.")
    everything = (IncidentKind.DOWN, IncidentKind.LAG_UNKNOWN, IncidentKind.LAG)
    last = None
    for at in (1000.0, 1700.0, 2400.0):
        last = judged(replace(down, at=at), away, last, everything)
        assert last.open_incidents == {}
    assert set(judged(replace(down, at=2460.0), away, last).open_incidents) == {"down"}
    opened = judged(down, away, None)
    assert judged(replace(down, at=1060.0), away, opened, everything).open_incidents == opened.open_incidents
    assert judged(replace(snapshot(*RUNNING), at=1060.0), None, opened, everything).open_incidents == {}


def test_losses_of_a_query_are_kept_through_looks_that_cannot_measure() -> None:
    lost = partition(0)
    lost.committed, lost.log_start = 3, 5
    first = sample(looked(lost))
    assert first.queries["enrich"].lost_ever == 2
    for _ in range(3):
        first = LagSample.from_json(sample(LagLook(5.0, None, "Kafka is away."), first).to_json())
    assert (first.queries, first.earlier["enrich"].lost_ever) == ({}, 2)


def test_nobody_is_told_of_one_ill_query_again_though_a_look_in_between_could_not_say() -> None:
    """Found by a reader: a heartbeat that was not read, or a change of holder, paged everybody once more."""
    ill = Heartbeat(counter=6, queries=(QueryProgress("a", batch=1, health=QueryHealth("retrying", 90.0, 6, "x")),))
    waits = QueryHealth("waiting", 95.0, 6, "x")
    known: LagSample | None = None
    beats = (ill, None, ill, replace(ill, queries=(replace(ill.queries[0], health=waits),)))
    for number, beat in enumerate(beats):
        found = replace(snapshot(*RUNNING, at=1000.0 + 60 * number), heartbeats={OLD: beat} if beat else {})
        known = judged(found, None, known)
    assert known is not None
    incident = known.incidents["query"].incident
    assert incident is not None
    assert incident.stage == 0


def test_that_a_log_ended_earlier_between_two_looks_is_told_however_far_they_are_apart() -> None:
    """Found by a reader: with `watch.schedule: 30 min` nobody was told of a log that ended earlier for a moment."""
    known = None
    for at, seconds, opens in ((1000.0, None, False), (2800.0, 1500.0, True), (4600.0, 3300.0, False)):
        health = QueryHealth() if seconds is None else QueryHealth(note="It ended earlier.", noted_seconds=seconds)
        beat = Heartbeat(counter=6, queries=(QueryProgress("a", batch=1, health=health),))
        known = judged(replace(snapshot(*RUNNING, at=at), heartbeats={OLD: beat}), None, known)
        assert ("query" in known.open_incidents) is opens
    assert known is not None
    assert known.incidents["query"].description == "It ended earlier."


def test_who_knows_of_one_ill_query_is_told_again_of_the_next_one() -> None:
    def look(before: LagSample | None, *ill: str) -> LagSample:
        health = {name: QueryHealth("retrying", 90.0, 6, "x") if name in ill else QueryHealth() for name in "ab"}
        queries = tuple(QueryProgress(name, batch=1, health=found) for name, found in health.items())
        found = replace(snapshot(*RUNNING, at=1000.0), heartbeats={OLD: Heartbeat(counter=6, queries=queries)})
        return LagSample.from_json(judged(found, None, before).to_json())

    def stage(sample: LagSample) -> int | None:
        incident = sample.incidents[IncidentKind.QUERY].incident
        return incident.stage if incident else None

    one = look(None, "a")
    again = look(one, "a")
    both = look(again, "a", "b")
    assert [stage(one), stage(again), stage(both), stage(look(both))] == [0, 0, 1, None]
