"""Stopping a stream, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.recover import recover
from airflow_stream_provider.planning.signs_of_life import DriversGone
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Skip, TaskIdentity, Wait
from airflow_stream_provider.planning.stop import stop, stopped_since
from tests.support.snapshots import BOTH, RUNNING, appended, given_up, results, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    STOPPED,
    acquired,
    failed,
    fenced,
    finished,
    ready,
    record,
    released,
    requested,
    stopped,
)


def test_a_stop_asks_the_holder_then_ends_every_driver() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    assert appended(stop(snapshot(*RUNNING), identity, None, "why"), "to") == ("requested", None)
    stopped = [*RUNNING, requested("stop", None, by=identity.by), released(OLD, "stop", None)]
    ending = stop(snapshot(*stopped), identity, None, "why")
    assert ending == Append("retired", {"deployment": OLD_DEPLOYMENT, "reason": "why"})
    retired = [*stopped, record("retired", by=identity.by, deployment=OLD_DEPLOYMENT, reason="why")]
    assert stop(snapshot(*retired), identity, None, "why") == Wait(DriversGone(OLD_DEPLOYMENT, 170.0))
    gone = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
    assert results(stop(snapshot(*retired, drivers=gone), identity, None, "why"), "stopped") == (True,)


def test_what_was_stopped_since_is_known_by_who_and_when() -> None:
    run = "airflow:orders__upgrade/weekly/"
    # By the clock of a driver, which may be wrong.
    let_go = replace(released(OLD, "stop", None), at=1.0)
    by_a_person = [*RUNNING, requested("stop", None), let_go]
    assert "stopped by airflow (a person wants it)" in stopped_since(snapshot(*by_a_person), 99.0, run)
    assert not stopped_since(snapshot(*by_a_person), 100.0, run), "it was asked for after that"
    assert stopped_since(snapshot(*RUNNING, requested("stop", None)), 99.0, run), "it is about to stop"
    assert not stopped_since(snapshot(*RUNNING), 99.0, run)
    assert stopped_since(snapshot(*RUNNING, failed(OLD), stopped("s")), 99.0, run), "what nobody held"
    own = [*RUNNING, requested("stop", None, by=f"{run}stop_first"), released(OLD, "stop", None)]
    assert not stopped_since(snapshot(*own), 99.0, run)
    again = [*by_a_person, *up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2)]
    assert not stopped_since(snapshot(*again), 99.0, run), "somebody has started it since"
    missed = record("aborted", request="stop", reason="late", at=300.0)
    assert not stopped_since(snapshot(*RUNNING, requested("stop", None), missed), 99.0, run), "it goes on"


def test_a_cleared_stop_leaves_what_was_started_since_alone() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    stopped = [*RUNNING, requested("stop", None, by=identity.by), released(OLD, "stop", None)]
    retired = [*stopped, record("retired", by=identity.by, deployment=OLD_DEPLOYMENT, reason="why")]
    gone = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
    waiting = stop(snapshot(*retired, *up(NEW), drivers=gone), identity, None, "why")
    assert isinstance(waiting, Done)
    started = [*retired, *up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2)]
    done = stop(snapshot(*started, drivers=gone), identity, None, "why")
    assert results(done, "stopped", "holder") == (False, NEW_DEPLOYMENT)


GONE = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
STOP = TaskIdentity("dag", "run", "stop")


@pytest.mark.parametrize("end", [[failed(OLD)], [fenced(OLD), failed(None, OLD_DEPLOYMENT)]], ids=["failed", "down"])
def test_what_is_down_is_stopped_for_good(end: list[Record]) -> None:
    step = stop(snapshot(*RUNNING, *end), STOP, None, "why")
    assert step == Append("stopped", {"request": STOP.request("stopped"), "reason": "why"})
    story = [*RUNNING, *end, stopped(STOP.request("stopped"), by=STOP.by)]
    after = snapshot(*story, drivers=GONE)
    assert results(stop(after, STOP, None, "why"), "stopped", "request") == (True, STOP.request("stopped"))
    watch = TaskIdentity("streams__revive", "run", "revive")
    assert isinstance(recover(after, watch, None, {}), Skip), "the watch leaves it alone"
    started = snapshot(*story, *up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2), failed(NEW))
    assert isinstance(recover(started, watch, None, {}), Append), "until somebody has started it"


def test_a_stop_ends_what_the_watch_has_declared_before_it() -> None:
    story = [*RUNNING, failed(OLD), *up(NEW)]
    assert isinstance(stop(snapshot(*story), STOP, None, "why"), Append)
    step = stop(snapshot(*story, stopped("s", by=STOP.by)), STOP, None, "why")
    assert step == Append("retired", {"deployment": NEW_DEPLOYMENT, "reason": "why"})


def test_a_driver_that_stopped_inside_a_batch_is_fenced_once_the_stop_is_in_the_log() -> None:
    torn = [*RUNNING, failed(OLD, boundary="interrupted")]
    assert isinstance(stop(snapshot(*torn), STOP, None, "why"), Append)
    assert appended(stop(snapshot(*torn, stopped("s", by=STOP.by)), STOP, None, "why")) == ("fencing",)


@pytest.mark.parametrize("how", ["stop", "stopped"])
def test_a_stop_that_is_cleared_long_after_stops_nothing_that_was_started_since(how: str) -> None:
    first = {
        "stop": [
            *RUNNING,
            requested(STOP.request("stop"), None, by=STOP.by),
            released(OLD, STOP.request("stop"), None),
        ],
        "stopped": [*RUNNING, failed(OLD), stopped(STOP.request("stopped"), by=STOP.by)],
    }[how]
    story = [*first, *up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2)]
    for number in range(200):
        story += [requested(f"q{number}", None, by="w"), record("aborted", by="w", request=f"q{number}", reason="no")]
    found = snapshot(*story)
    assert STOP.request(how) in found.state.forgotten
    assert results(stop(found, STOP, None, "why"), "stopped", "holder") == (False, NEW_DEPLOYMENT)


@pytest.mark.parametrize("before", [[], STOPPED, [*RUNNING, finished(OLD)]], ids=["never ran", "stopped", "finished"])
def test_a_stop_of_what_rests_already_is_remembered_too(before: list[Record]) -> None:
    first = stop(snapshot(*before), STOP, None, "why")
    assert isinstance(first, Append)
    mine = stopped(first.fields["request"], by=STOP.by)
    driver = "orders-3-cccc.00000003"
    started = [*before, mine, *up(driver), requested("go", driver), ready("go", driver)]
    done = stop(snapshot(*started, acquired(driver, "go", 2 if before else 1)), STOP, None, "why")
    assert results(done, "stopped", "holder") == (False, "orders-3-cccc")


def test_a_cleared_stop_does_not_keep_down_what_was_started_since_and_is_down() -> None:
    story = [*RUNNING, requested("s", None, by=STOP.by), released(OLD, "s", None)]
    story += [*up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2), fenced(NEW)]
    assert results(stop(snapshot(*story), STOP, None, "why"), "stopped") == (False,)


def test_a_cleared_stop_that_was_in_vain_does_not_stop_what_was_started_since() -> None:
    missed = [*BOTH, requested("s", None, by=STOP.by), record("aborted", incarnation=OLD, request="s", reason="m")]
    after = [requested("up", NEW), ready("up", NEW), released(OLD, "up", NEW), acquired(NEW, "up", 2)]
    assert "was started again since" in given_up(stop(snapshot(*missed, *after), STOP, None, "why"))


def test_a_holder_that_missed_its_stop_and_died_is_stopped() -> None:
    missed = [*RUNNING, requested("s", None, by=STOP.by), record("aborted", incarnation=OLD, request="s", reason="m")]
    assert appended(stop(snapshot(*missed, fenced(OLD)), STOP, None, "why")) == ("stopped",)


def test_a_holder_that_missed_its_stop_goes_on() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    missed = [
        *RUNNING,
        requested("stop", None, by=identity.by),
        record("aborted", incarnation=OLD, request="stop", reason="m"),
    ]
    assert isinstance(stop(snapshot(*missed), identity, None, "why"), GiveUp)


def test_a_holder_that_hangs_is_fenced_and_then_the_stream_is_stopped() -> None:
    identity = TaskIdentity("dag", "run", "stop_first")
    step = stop(snapshot(*RUNNING), identity, None, "why", hangs="It hangs.")
    assert step == Append("fencing", {"incarnation": OLD, "reason": "It hangs."})
    assert appended(stop(snapshot(*RUNNING, fenced(OLD)), identity, None, "why")) == ("stopped",)
    missed = [
        *RUNNING,
        requested("stop", None, by=identity.by),
        record("aborted", incarnation=OLD, request="stop", reason="late"),
    ]
    assert isinstance(stop(snapshot(*missed), identity, None, "why"), GiveUp)
    assert appended(stop(snapshot(*missed), identity, None, "why", hangs="It hangs.")) == ("fencing",)
