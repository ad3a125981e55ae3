"""What the watch says of one look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, OffsetsGroupStatus, QueryHealth, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.health import ILLEGAL_SHOWN, TRANSIENT_SECONDS, found_symptoms, illegal_records
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom
from airflow_stream_provider.monitoring.samples import LagSample
from tests.support.snapshots import snapshot
from tests.support.story import (
    INTERRUPTED,
    NEW,
    OLD,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    acquired,
    failed,
    fenced,
    play,
)

FAR = LagJudgement(Health.FAIL, ("q is behind by 60 records; 10 are allowed.",))
UNSURE = LagJudgement(Health.UNKNOWN, ("Kafka does not answer.",))
WELL = LagJudgement(Health.PASS)


def look(
    *records: Record, lag: LagJudgement | None = WELL, silent: float | None = None, **beat: Any
) -> dict[IncidentKind, Symptom]:
    found = replace(snapshot(*records, at=1000.0), heartbeats={OLD: Heartbeat(counter=6, **beat)})
    before = None if silent is None else LagSample(990.0, counters={OLD: 6}, since={OLD: 1000.0 - silent})
    return found_symptoms(found, lag, before, 120.0)


def test_a_stream_that_runs_and_keeps_up_is_well() -> None:
    found = look(*RUNNING)
    assert set(found) == {"down", "finished", "query", "offsets_group", "rewind", "log", "lag", "lag_unknown"}
    assert {symptom.health for symptom in found.values()} == {Health.PASS}


@pytest.mark.parametrize(
    ("records", "health", "says"),
    [
        ([], Health.PASS, ""),
        (STOPPED, Health.PASS, ""),
        (STARTED, Health.PASS, ""),
        (REQUESTED, Health.PASS, ""),
        (RELEASED, Health.UNKNOWN, ""),
        ([*RUNNING, fenced(OLD)], Health.FAIL, "Nobody runs it (down)."),
        ([*RUNNING, failed(OLD)], Health.FAIL, "Nobody runs it (failed). it broke"),
        (INTERRUPTED, Health.FAIL, f"{OLD} stopped inside a batch and is not confirmed dead."),
    ],
)
def test_nobody_runs_it_though_nobody_stopped_it(records: list[Record], health: Health, says: str) -> None:
    found = look(*records)[IncidentKind.DOWN]
    assert (found.health, found.description) == (health, says)


def test_the_last_sign_of_life_of_what_nobody_runs_is_told() -> None:
    found = look(*RUNNING, fenced(OLD), at=400.0)[IncidentKind.DOWN]
    assert found.description == "Nobody runs it (down; the last sign of life is 10 min old)."


@pytest.mark.parametrize(("silent", "health"), [(59.0, Health.UNKNOWN), (61.0, Health.FAIL)])
def test_a_holder_that_has_not_beaten_for_two_leases_is_said_to_be_silent(silent: float, health: Health) -> None:
    found = look(*RUNNING, silent=silent)[IncidentKind.DOWN]
    assert found.health is health
    assert (f"{OLD} has given no sign of life for 1 min 1 s" in found.description) is (health is Health.FAIL)


@pytest.mark.parametrize(("took_over", "health"), [(100.0, Health.FAIL), (945.0, Health.UNKNOWN)])
def test_a_holder_that_never_wrote_a_heartbeat_is_silent_from_when_it_took_over(
    took_over: float, health: Health
) -> None:
    """Looks from before it held saw no heartbeat of it either."""
    found = snapshot(*RUNNING, at=1000.0)
    records = (*found.records[:-1], replace(found.records[-1], at=took_over))
    before = LagSample(990.0, since={OLD: 10.0})
    assert found_symptoms(replace(found, records=records), None, before, 120.0)[IncidentKind.DOWN].health is health


def test_the_lag_is_judged_as_everywhere_and_must_last() -> None:
    assert look(*RUNNING, lag=FAR)[IncidentKind.LAG] == Symptom(
        Health.FAIL, "q is behind by 60 records; 10 are allowed.", 120.0
    )
    assert look(*STOPPED, lag=FAR)[IncidentKind.LAG].health is Health.PASS, "nobody wants it to keep up"


def test_an_unknown_lag_is_a_kind_of_its_own_and_says_nothing_about_the_lag() -> None:
    found = look(*RUNNING, lag=UNSURE)
    assert found[IncidentKind.LAG].health is Health.UNKNOWN
    assert found[IncidentKind.LAG_UNKNOWN] == Symptom(
        Health.FAIL, "Its lag is unknown. Kafka does not answer.", TRANSIENT_SECONDS
    )


def test_a_query_that_fails_beside_others_is_told_also_without_kafka() -> None:
    """Found by a review: such a stream was healthy for ever."""
    ill = QueryHealth("retrying", 90.0, 6, "ConcurrentAppendException", batch=18)
    queries = (QueryProgress("enrich", batch=900, health=QueryHealth()), QueryProgress("alerts", batch=17, health=ill))
    for lag in (None, WELL):
        found = look(*RUNNING, lag=lag, queries=queries)
        said = "The query alerts has failed for 1 min 30 s, 6 times since it last got on: ConcurrentAppendException. "
        assert found[IncidentKind.QUERY] == Symptom(Health.FAIL, f"{said}It is batch 18.", worse=True)
        assert {kind for kind, symptom in found.items() if symptom.health is not Health.PASS} == {"query"}


def test_a_stream_without_kafka_has_no_lag() -> None:
    assert set(look(*RUNNING, lag=None)) == {"down", "finished", "query", "offsets_group", "rewind", "log"}


def test_a_group_that_cannot_be_committed_to_is_a_symptom() -> None:
    found = look(*RUNNING, offsets_group=OffsetsGroupStatus(1.0, "not authorized"))[IncidentKind.OFFSETS_GROUP]
    assert found == Symptom(Health.FAIL, "not authorized", TRANSIENT_SECONDS)


def test_records_that_were_to_be_read_again_and_are_not_are_told_at_once() -> None:
    undone = "orders-2 was lost. Nobody does it any more."
    assert look(*RUNNING, rewind=undone, rewind_undone=True)[IncidentKind.REWIND] == Symptom(Health.FAIL, undone)
    assert look(*RUNNING, rewind="out goes back.")[IncidentKind.REWIND] == Symptom(Health.PASS)
    nobody = found_symptoms(snapshot(*RUNNING, at=1000.0), None, None, 120.0)
    assert nobody[IncidentKind.REWIND].health is Health.UNKNOWN, "without a heartbeat"


@pytest.mark.parametrize(("before", "health"), [(0, Health.FAIL), (1, Health.FAIL), (2, Health.PASS)])
def test_new_records_that_break_the_rules_are_told(before: int, health: Health) -> None:
    forged = [acquired(NEW, "forged", 7).numbered(len(RUNNING) + number) for number in (1, 2)]
    found = replace(snapshot(*RUNNING, at=1000.0), state=fold(forged, play(RUNNING)))
    symptom = found_symptoms(found, None, LagSample(990.0, illegal=before), 120.0)[IncidentKind.LOG]
    assert (symptom.health, symptom.for_at_least) == (health, 0.0)
    if health is Health.FAIL:
        assert "2 records of its control log break the rules" in symptom.description
        assert "7 (acquired: one-holder), 8 (acquired: one-holder)" in symptom.description


def test_only_some_illegal_records_are_named() -> None:
    many = [acquired(NEW, "forged", 7).numbered(len(RUNNING) + number) for number in range(1, ILLEGAL_SHOWN + 3)]
    said = illegal_records(fold(many, play(RUNNING)))
    assert said.count("one-holder") == ILLEGAL_SHOWN
    assert illegal_records(play(RUNNING)) == ""
