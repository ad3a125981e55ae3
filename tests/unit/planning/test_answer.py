"""While a person thinks: what ends the question, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.waits import Ended, Observations, WaitOutcome, condition_from_json
from tests.support.snapshots import BOTH, UPGRADED, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    declared,
    failed,
    fenced,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
    submitted,
)

WAIT = Answered(NEW_DEPLOYMENT, OLD_DEPLOYMENT)
OTHER = "orders-3-cccc.00000004"
AGAIN = "orders-1-dddd.00000005"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def look(*records: Record) -> WaitOutcome | None:
    return WAIT.check(snapshot(*records), Observations())


def test_nothing_has_happened() -> None:
    assert look(*BOTH) is None


def test_a_standby_that_ended_leaves_nothing_to_decide() -> None:
    found = look(*BOTH, failed(NEW))
    assert found is not None
    assert (found.ended, found.subject) == (Ended.GONE, NEW_DEPLOYMENT)
    assert found.reason == (
        f"{NEW_DEPLOYMENT} has ended: it broke: Boom. {OLD_DEPLOYMENT} (release 1) holds the stream."
    )
    found = look(*BOTH, retired(NEW_DEPLOYMENT))
    assert found is not None
    assert f"{NEW_DEPLOYMENT} has ended: not needed." in found.reason


def test_a_standby_that_was_fenced_cannot_take_over() -> None:
    found = look(*BOTH, fenced(NEW))
    assert found is not None
    assert "has no driver that could take over" in found.reason


def test_a_release_that_a_person_has_put_in_charge_meanwhile_may_still_be_answered() -> None:
    assert look(*UPGRADED) is None


def silent(seconds: float, driver: DriverState | None) -> tuple[WaitOutcome | None, tuple[str, ...]]:
    """Return what is made of a standby that has been silent for so long, and whom the cluster is asked about."""
    facts = {} if driver is None else {NEW_DEPLOYMENT: DriverFacts("driver-1", driver)}
    found: Snapshot = replace(snapshot(*BOTH, drivers=facts), heartbeats={NEW: Heartbeat(counter=7)})
    clock = Clock()
    seen = Observations(ages=HeartbeatAges(clock))
    assert WAIT.check(found, seen) is None
    clock.now = seconds
    return WAIT.check(found, seen), WAIT.needs(found, seen).drivers


@pytest.mark.parametrize(
    ("seconds", "driver", "gone", "asked"),
    [
        (10.0, None, False, False),
        (20.0, DriverState.RUNNING, False, True),
        (20.0, DriverState.FAILED, False, True),
        (31.0, DriverState.FAILED, True, True),  # the cluster's word shortens the time
        (31.0, DriverState.RUNNING, False, True),  # it may pause while the control log is away
        (61.0, DriverState.RUNNING, True, True),
    ],
)
def test_a_silent_standby_is_lost_after_its_lease(
    seconds: float, driver: DriverState | None, gone: bool, asked: bool
) -> None:
    found, drivers = silent(seconds, driver)
    assert (found is not None) == gone
    assert drivers == ((NEW_DEPLOYMENT,) if asked else ())
    if found is not None:
        assert f"The driver of {NEW_DEPLOYMENT} has given no sign of life for {seconds:.0f} s." in found.reason


def test_at_the_first_look_the_cluster_is_not_asked() -> None:
    assert WAIT.needs(None, Observations()).drivers == ()
    assert WAIT.needs(snapshot(*UPGRADED), Observations()).drivers == ()


HANDED_TO_OTHER = [
    *BOTH,
    *up(OTHER),
    requested("theirs", OTHER),
    ready("theirs", OTHER),
    released(OLD, "theirs", OTHER),
    acquired(OTHER, "theirs", 2),
]


def test_another_holder_than_the_one_that_was_compared_leaves_nothing_to_decide() -> None:
    found = look(*HANDED_TO_OTHER)
    assert found is not None
    assert "orders-3-cccc has taken over since" in found.reason


def test_a_holder_that_died_and_was_brought_back_is_the_same_release() -> None:
    again = declared("orders-1-dddd")
    back = [
        *BOTH,
        fenced(OLD),
        record(again.kind, **again.fields, again=OLD_DEPLOYMENT),
        submitted("orders-1-dddd"),
        standby(AGAIN),
        requested("revive", AGAIN),
        ready("revive", AGAIN),
    ]
    assert look(*back[: len(BOTH) + 1]) is None  # nobody holds: the watch brings it back
    assert look(*back, acquired(AGAIN, "revive", 2)) is None


LIMITS = LagLimits()
DOUBT = replace(WAIT, limits=LIMITS.to_json())


def test_who_is_asked_because_of_a_doubt_is_not_waited_for_when_nobody_holds() -> None:
    dead = snapshot(*BOTH, failed(OLD))
    assert WAIT.check(dead, Observations()) is None, "with `approval` a person is asked in any case"
    found = DOUBT.check(dead, Observations())
    assert found is not None
    assert (found.ended, found.subject) == (Ended.REACHED, NEW_DEPLOYMENT)
    assert found.reason.startswith("Nobody runs it (failed")
    assert DOUBT.check(snapshot(*BOTH), Observations()) is None
    assert DOUBT.check(snapshot(*UPGRADED), Observations()) is None, "it holds by now"
    gone = DOUBT.check(snapshot(*BOTH, failed(OLD), failed(NEW)), Observations())
    assert gone is not None
    assert gone.ended is Ended.GONE, "nothing is left that could take over"


@pytest.mark.parametrize(
    ("seconds", "driver", "over"),
    [(31.0, DriverState.FAILED, True), (31.0, DriverState.RUNNING, False), (61.0, DriverState.RUNNING, True)],
)
def test_nor_when_the_holder_gives_no_sign_of_life(seconds: float, driver: DriverState, over: bool) -> None:
    found = snapshot(*BOTH, drivers={OLD_DEPLOYMENT: DriverFacts("driver-1", driver)})
    clock = Clock()

    def standby_beats(counter: int) -> Snapshot:
        return replace(found, heartbeats={OLD: Heartbeat(counter=7), NEW: Heartbeat(counter=counter)})

    for condition in (DOUBT, WAIT):
        in_doubt = condition is DOUBT
        clock.now, seen = 0.0, Observations(ages=HeartbeatAges(clock))
        assert condition.check(standby_beats(1), seen) is None
        assert bool(condition.needs(standby_beats(1), seen).lag) == in_doubt
        clock.now = seconds
        ended = condition.check(standby_beats(2), seen)
        assert condition.needs(standby_beats(2), seen).drivers == ((OLD_DEPLOYMENT,) if in_doubt else ())
        assert (ended is not None) == (over and in_doubt)
        if ended is not None:
            assert (ended.ended, ended.reason) == (Ended.REACHED, f"{OLD} gives no sign of life.")


def test_nor_when_the_holder_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LagLimits] = []
    monkeypatch.setattr(
        "airflow_stream_provider.planning.judgement.hanging",
        lambda snapshot, limits: asked.append(limits) or f"{OLD} hangs.",
    )
    found = DOUBT.check(snapshot(*BOTH), Observations())
    assert found is not None
    assert (found.ended, found.reason, asked) == (Ended.REACHED, f"{OLD} hangs.", [LIMITS])
    assert WAIT.check(snapshot(*BOTH), Observations()) is None


def test_a_question_of_an_earlier_version_goes_on_as_it_was_asked() -> None:
    """It does not say why it was asked."""
    kept = {"condition": "Answered", "deployment": NEW_DEPLOYMENT, "holding": OLD_DEPLOYMENT}
    assert condition_from_json(kept, [Answered]) == WAIT
    assert condition_from_json(json.loads(json.dumps(DOUBT.to_json())), [Answered]) == DOUBT


def test_a_stream_that_was_stopped_meanwhile_stays_so() -> None:
    stop = [*BOTH, requested("stop", None), released(OLD, "stop", None)]
    found = look(*stop)
    assert found is not None
    assert "The stream is stopped by now." in found.reason
    # With `restart` it was stopped before anybody was asked.
    assert Answered(NEW_DEPLOYMENT, "").check(snapshot(*stop), Observations()) is None
