"""What looks hand to each other: small, and harmless when it is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.monitoring.causes import FORGOTTEN_SECONDS, KEPT, LATELY_SECONDS, FolderMemory
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom

AWAY = (IncidentKind.KAFKA, "kafka_default")
BAD, GOOD = Symptom(Health.FAIL, "It is away.", 600.0), Symptom(Health.PASS)


def handed_on(memory: FolderMemory, now: float) -> FolderMemory:
    return FolderMemory.read(json.dumps(memory.kept(now).to_json()).encode())


def test_an_incident_has_one_id_from_look_to_look() -> None:
    memory = FolderMemory()
    for at in (1000.0, 1300.0, 1599.0):
        memory.judge(AWAY, BAD, at)
        memory = handed_on(memory, at)
        assert memory.open_incidents() == {}
    for at in (1600.0, 1700.0):
        memory.judge(AWAY, BAD, at)
        memory = handed_on(memory, at)
        assert memory.open_incidents() == {AWAY: "kafka_default-kafka-19700101T001640Z"}
    memory.judge(AWAY, GOOD, 1800.0)
    assert memory.open_incidents() == {}
    assert memory.bad_at(AWAY) == 1700.0


def test_what_was_bad_for_a_moment_only_explains_nothing_afterwards() -> None:
    memory = FolderMemory()
    memory.judge(AWAY, BAD, 1000.0)
    memory.judge(AWAY, GOOD, 1060.0)
    assert memory.bad_at(AWAY) is None
    assert memory.kept(1060.0).to_json()["subjects"] == []


def test_what_is_well_leaves_nothing_after_a_while() -> None:
    memory = FolderMemory()
    for at in (1000.0, 1060.0, 1120.0):
        memory.judge(AWAY, BAD, at)
    for at in (1180.0, 1120.0 + LATELY_SECONDS):
        memory.judge(AWAY, GOOD, at)
    assert memory.kept(at).to_json()["subjects"] == []


def test_what_no_look_judges_any_more_is_forgotten_after_a_day() -> None:
    memory = FolderMemory()
    memory.judge(AWAY, BAD, 1000.0)
    assert len(memory.kept(1000.0 + FORGOTTEN_SECONDS - 1).to_json()["subjects"]) == 1
    assert memory.kept(1000.0 + FORGOTTEN_SECONDS).to_json()["subjects"] == []


def test_who_was_told_is_kept_until_they_know_that_it_is_over() -> None:
    memory = FolderMemory()
    memory.judge(AWAY, Symptom(Health.FAIL, "It is away."), 1000.0)
    state = memory.subjects[AWAY].state
    assert state.incident is not None
    memory.told(AWAY, state.acknowledge(["pager"], open=True))
    memory.judge(AWAY, GOOD, 1060.0)
    kept = handed_on(memory, 1060.0).subjects[AWAY].state
    assert (kept.incident, dict(kept.acknowledged)) == (None, {"pager": state.incident})


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        None,
        "x",
        [1],
        {"version": 2, "subjects": []},
        {"version": 1, "subjects": [["weather", "k", {}]]},
        {"version": 1, "subjects": 5},
        {"version": 1, "subjects": [["kafka", "k", {"state": None, "at": 1.0, "bad_at": None}]]},
    ],
)
def test_what_is_damaged_or_of_another_version_begins_anew(damaged: Any) -> None:
    assert FolderMemory.read(damaged).subjects == {}


def test_the_next_look_begins_with_those_that_were_not_reached_and_ends_with_those_that_may_hang() -> None:
    names, memory = ["a", "b", "c", "d"], FolderMemory()
    memory.judge((IncidentKind.WATCH, "a"), BAD, 1000.0)
    memory.reached(names, {"c", "d"}, 1000.0)
    memory = handed_on(memory, 1000.0)
    assert memory.first(names) == ["c", "d", "b", "a"]
    memory.reached(["c", "b"], {"b", "c"}, 1060.0)
    # Of a stream that was not looked at, it is still so.
    assert memory.not_reached == {"c": 1000.0, "d": 1000.0, "b": 1060.0}
    memory.reached(names, set(), 1120.0)
    assert handed_on(memory, 1120.0).not_reached == {}
    memory.reached(names, {"a"}, 1120.0)
    assert handed_on(memory, 1120.0 + FORGOTTEN_SECONDS).not_reached == {}


def test_a_long_description_is_cut() -> None:
    memory = FolderMemory()
    memory.judge(AWAY, Symptom(Health.FAIL, "away " * 1000), 1000.0)
    [(_, _, kept)] = memory.kept(1000.0).to_json()["subjects"]
    assert len(kept["state"]["description"]) == KEPT
