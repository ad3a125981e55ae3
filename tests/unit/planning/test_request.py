"""What is asked for, and what follows from whoever acts on it: a table of an open request on the left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import Request
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.request import ANSWER_SECONDS, STILL_SECONDS, ask, see_through
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Kill, Step, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ME, snapshot
from tests.support.story import (
    FOLLOWING,
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPING,
    failed,
    fenced,
    fencing,
    record,
    requested,
    standby,
    wanted,
)


def open_request(found: Snapshot) -> Request:
    assert found.state.open_request is not None
    return found.state.open_request


def next_step(records: list[Record], outcome: WaitOutcome | None = None) -> Any:
    found = snapshot(*records)
    return see_through(Scene(found, ME, outcome), open_request(found))


RELEASE = {"version": "1", "hash": "0" * 64}


def patient(deployment: str, boundary_seconds: float) -> Record:
    policy = {"boundary_seconds": boundary_seconds}
    return record("declared", deployment=deployment, release=RELEASE, policy=policy, reason="")


def asked(records: list[Record], to: str | None, at: float = 1000.0) -> Append:
    found = Scene(snapshot(*records, wanted("w"), at=at), ME)
    assert found.state.wish is not None
    return ask(found, found.state.wish, to)


@pytest.mark.parametrize(
    ("records", "to", "seconds"),
    [
        ([patient(OLD_DEPLOYMENT, 100.0), *RUNNING[1:], patient(NEW_DEPLOYMENT, 7.0), standby(NEW)], NEW, 280.0),
        ([patient(OLD_DEPLOYMENT, 100.0), *RUNNING[1:]], None, 100.0),
        ([patient(OLD_DEPLOYMENT, 7.0), *STARTED[1:]], OLD, 7.0 + 180.0),
        (HANDED_OVER, OLD, 60.0),
        ([], None, 60.0),
    ],
    ids=[
        "the holder's boundary counts",
        "also for a stop",
        "the appointed one's, when nobody holds, which may rehearse again",
        "one that has held answers at once",
        "the default",
    ],
)
def test_a_request_has_time_for_the_answer_and_the_boundary(
    records: list[Record], to: str | None, seconds: float
) -> None:
    step = asked(records, to)
    expires = 1000.0 + seconds + ANSWER_SECONDS
    fields = {"to": to, "expires": expires, "reason": "a person wants it", "wish": "w"}
    assert (step.kind, {name: step.fields[name] for name in fields}) == ("requested", fields)


def test_a_request_for_a_follower_names_the_evidence_and_has_time_for_the_logs_to_stand_still() -> None:
    found = Scene(snapshot(*FOLLOWING, at=1000.0), ME)
    gone = replace(found, snapshot=replace(found.snapshot, job=UnmanagedView("driver-1", DriverState.KILLED, "d")))
    assert found.state.wish is not None
    for seen, evidence, seconds in ((found, None, 90.0), (gone, {"job": "driver-1", "state": "killed"}, 150.0)):
        step = ask(seen, found.state.wish, OLD)
        assert (step.fields.get("evidence"), step.fields["expires"]) == (evidence, 1000.0 + seconds)
    assert 90.0 + STILL_SECONDS == 150.0
    assert "evidence" not in ask(gone, found.state.wish, None).fields


def test_two_that_ask_at_once_find_the_same_id_and_a_later_one_another() -> None:
    first = asked(PREPARED, NEW)
    assert first.fields["request"] == asked(PREPARED, NEW, at=2000.0).fields["request"]
    others = [asked(PREPARED, None), asked([*PREPARED, record("noted")], NEW)]
    assert first.fields["request"] not in {other.fields["request"] for other in others}


@pytest.mark.parametrize(
    ("records", "step"),
    [
        (REQUESTED, Wait(RequestOver("up", 200.0, (OLD, NEW), 30.0))),
        (READY, Wait(RequestOver("up", 200.0, (OLD, NEW), 30.0))),
        (RELEASED, Wait(RequestOver("up", 200.0, (OLD, NEW), 30.0))),
        (STOPPING, Wait(RequestOver("stop", 200.0, (OLD,), 30.0))),
        ([*STARTED, requested("start", OLD)], Wait(RequestOver("start", 200.0, (OLD,), 30.0))),
        ([*READY, fenced(OLD)], Wait(RequestOver("up", 200.0, (NEW,), 30.0))),
    ],
    ids=["asked", "answered", "released", "a stop", "an appointment", "the old one is dead"],
)
def test_a_request_is_waited_for_with_the_drivers_that_it_needs(records: list[Record], step: Step) -> None:
    assert next_step(records) == step


@pytest.mark.parametrize("name", [OLD, NEW])
def test_a_driver_of_it_that_is_silent_is_killed_and_then_fenced(name: str) -> None:
    silent = WaitOutcome(Ended.SILENT, name, "It has not beaten for 30 s")
    assert next_step([*READY, fencing(name)], silent) == Kill(name.rpartition(".")[0], Dead(name, 30.0))


def test_a_driver_of_it_that_has_beaten_since_is_watched_on() -> None:
    silent = WaitOutcome(Ended.SILENT, OLD, "no heartbeat for 61 s", counters={OLD: 3})
    for counter, kind in ((3, Append), (4, Wait)):
        found = replace(snapshot(*READY), heartbeats={OLD: Heartbeat(counter=counter)})
        request = found.state.open_request
        assert request is not None
        assert isinstance(see_through(Scene(found, ME, silent), request), kind)


def test_the_silence_of_one_that_has_ended_since_means_nothing() -> None:
    silent = WaitOutcome(Ended.SILENT, OLD, "It has not beaten for 30 s")
    assert isinstance(next_step([*READY, fenced(OLD)], silent), Wait)
    assert isinstance(next_step(READY, WaitOutcome(Ended.SILENT, "another.00000009")), Wait)


@pytest.mark.parametrize(
    "records",
    [
        [*REQUESTED, failed(NEW)],
        [*READY, fenced(NEW)],
        [*RELEASED, fenced(NEW), fenced(OLD)],
    ],
)
def test_a_request_that_nobody_can_act_on_any_more_is_aborted(records: list[Record]) -> None:
    request = open_request(snapshot(*records)).id
    reason = "No driver is left that could take over."
    assert next_step(records) == Append("aborted", {"request": request, "reason": reason})


def test_a_releaser_may_still_take_back_what_its_standby_cannot_take() -> None:
    assert next_step([*RELEASED, fenced(NEW)]) == Wait(RequestOver("up", 200.0, (OLD,), 30.0))


def test_a_stop_without_a_holder_is_not_taken_for_one_without_a_standby() -> None:
    assert isinstance(next_step([*PREPARED, requested("stop", None)]), Wait)
