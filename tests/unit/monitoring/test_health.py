"""What the watch says of one look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import Health, LagJudgement
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, OffsetsGroupStatus
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.health import TRANSIENT_SECONDS, symptoms
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom
from tests.support.snapshots import snapshot
from tests.support.story import INTERRUPTED, OLD, RELEASED, REQUESTED, RUNNING, STARTED, STOPPED, failed, fenced

FAR = LagJudgement(Health.FAIL, ("q is behind by 60 records; 10 are allowed.",))
UNSURE = LagJudgement(Health.UNKNOWN, ("Kafka does not answer.",))
WELL = LagJudgement(Health.PASS)


def look(
    *records: Record, lag: LagJudgement | None = WELL, silent: float | None = None, **beat: Any
) -> dict[IncidentKind, Symptom]:
    found = replace(snapshot(*records, at=1000.0), heartbeats={OLD: Heartbeat(counter=6, **beat)})
    return symptoms(found, lag, None if silent is None else 1000.0 - silent, 120.0)


def test_a_stream_that_runs_and_keeps_up_is_well() -> None:
    found = look(*RUNNING)
    assert set(found) == {"down", "offsets_group", "lag", "lag_unknown"}
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


def test_a_stream_without_kafka_has_no_lag() -> None:
    assert set(look(*RUNNING, lag=None)) == {"down", "offsets_group"}


def test_a_group_that_cannot_be_committed_to_is_a_symptom() -> None:
    found = look(*RUNNING, offsets_group=OffsetsGroupStatus(1.0, "not authorized"))[IncidentKind.OFFSETS_GROUP]
    assert found == Symptom(Health.FAIL, "not authorized", TRANSIENT_SECONDS)
