"""Whether a rehearsal passes, and when any release is better than what runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.comparison import Compared, Comparison
from airflow_stream_provider.planning.judgement import Answered, broken, judge_rehearsal
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.waits import Ended, Observations, WaitOutcome, condition_from_json
from tests.support.rehearsals import again, running
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
    wanted,
)
from tests.support.there import there


def judged(found: Snapshot, every: float, max_seconds: float | None = None) -> Comparison:
    """Judge a standby beside a holder that reads 1000 rows in a second, every so often."""
    found = replace(found, heartbeats={OLD: running(1.0, every)})
    return judge_rehearsal(found, found.state.incarnations[NEW], max_seconds)


def test_a_rehearsal_passes_or_is_doubted() -> None:
    good = judged(snapshot(*again(1.5)), 10.0)
    assert (good.reasons, good.verdict) == ((), Compared.PASS)
    assert "which leaves little to spare" in judged(snapshot(*again(9.0)), 12.0).reasons[0]


def test_no_release_is_refused_because_it_or_its_machine_is_slow() -> None:
    slow = judged(snapshot(*again(9.0)), 4.0)
    assert slow.verdict is Compared.INCONCLUSIVE
    assert slow.reasons[0].endswith("which is too slow, if it was not the machine that was busy.")


def test_a_batch_that_takes_longer_than_the_stream_may_be_late_is_for_a_person() -> None:
    assert judged(snapshot(*again(1.5)), 10.0, 1.5).reasons == ()
    late = judged(snapshot(*again(1.6)), 10.0, 1.5)
    assert late.verdict is Compared.INCONCLUSIVE
    assert late.reasons[0].startswith("The query a took 1.6 s for a batch of live data; the stream may be at most 2 s")


def only_first(seconds: float) -> list[Record]:
    """A standby of which only the first batch of a query was seen."""
    summary = {"batches": 1, "batch_rows": [1000], "batch_seconds": [seconds], "rows_exact": True}
    rehearsal = {"queries": {"a": summary}, "notes": []}
    up = record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=[{"name": "a"}], rehearsal=rehearsal)
    return [*BOTH[:-1], up]


def test_a_first_batch_that_alone_was_seen_and_late_is_for_a_person() -> None:
    """It loads the state, which with much of it takes longer than the stream may be late."""
    assert judged(snapshot(*only_first(30.0)), 40.0, 30.0).reasons == ()
    found = judged(snapshot(*only_first(30.5)), 40.0, 30.0)
    assert found.verdict is Compared.INCONCLUSIVE
    assert found.reasons[0].startswith(
        "The query a took 30.5 s for a batch of live data; the stream may be at most 30 s"
    )
    assert "Only the first batch of a query was seen" in found.reasons[0]


SECONDS = st.floats(0.1, 1000.0)


@given(first=SECONDS, later=st.lists(SECONDS, max_size=4), again=st.none() | SECONDS, limit=SECONDS)
def test_a_release_of_which_no_batch_was_in_time_never_passes(
    first: float, later: list[float], again: float | None, limit: float
) -> None:
    summary: dict[str, Any] = {"batch_rows": [1000] * (1 + len(later)), "batch_seconds": [first, *later]}
    if again is not None:
        summary["again"] = {"batch": 9, "rows": 1000, "seconds": again, "state_rows": 0, "state_bytes": 0}
    rehearsal = {"queries": {"a": summary}, "notes": []}
    up = record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=[{"name": "a"}], rehearsal=rehearsal)
    found = snapshot(*BOTH[:-1], up)  # without a heartbeat of the holder: there is nothing else to judge
    verdict = judge_rehearsal(found, found.state.incarnations[NEW], limit).verdict
    seen = [*([again] if again is not None else []), *later] or [first]
    assert verdict is (Compared.PASS if min(seen) <= limit else Compared.INCONCLUSIVE)


def test_one_that_holds_is_not_compared_with_itself() -> None:
    held = [*again(9.0), requested("up", NEW), ready("up", NEW), released(OLD, "up", NEW), acquired(NEW, "up", 2)]
    found = replace(snapshot(*held), heartbeats={NEW: running(1.0, 4.0)})
    assert judge_rehearsal(found, found.state.incarnations[NEW], None).reasons == ()


@pytest.mark.parametrize(
    ("more", "lost", "says"),
    [
        ([], False, ""),
        ([], True, f"{OLD} gives no sign of life."),
        ([failed(OLD)], False, "Nobody runs it (failed"),
        ([fenced(OLD)], False, "Nobody runs it (down"),
        ([wanted("rest", "stop"), requested("stop", None), released(OLD, "stop", None)], False, ""),
        ([requested("x", NEW), ready("x", NEW), released(OLD, "x", NEW)], False, ""),
    ],
    ids=["alive", "silent", "failed", "fenced", "stopped", "changing hands"],
)
def test_any_release_is_better_than_a_stream_that_nobody_runs(more: list[Record], lost: bool, says: str) -> None:
    found = broken(snapshot(*again(1.0), *more), lost=lost)
    assert found.startswith(says) if says else not found


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
    found = there(look(*BOTH, failed(NEW)))
    assert (found.ended, found.subject) == (Ended.GONE, NEW_DEPLOYMENT)
    assert found.reason == (
        f"{NEW_DEPLOYMENT} has ended: it broke: Boom. {OLD_DEPLOYMENT} (release 1) holds the stream."
    )
    assert f"{NEW_DEPLOYMENT} has ended: not needed." in there(look(*BOTH, retired(NEW_DEPLOYMENT))).reason


def test_a_standby_that_was_fenced_cannot_take_over() -> None:
    assert "has no driver that could take over" in there(look(*BOTH, fenced(NEW))).reason


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
    assert "orders-3-cccc has taken over since" in there(look(*HANDED_TO_OTHER)).reason


def test_a_holder_that_died_and_was_brought_back_is_the_same_release() -> None:
    back = [
        *BOTH,
        fenced(OLD),
        declared("orders-1-dddd", "old", again=OLD_DEPLOYMENT),
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
    found = there(DOUBT.check(dead, Observations()))
    assert (found.ended, found.subject) == (Ended.REACHED, NEW_DEPLOYMENT)
    assert found.reason.startswith("Nobody runs it (failed")
    assert DOUBT.check(snapshot(*BOTH), Observations()) is None
    assert DOUBT.check(snapshot(*UPGRADED), Observations()) is None, "it holds by now"
    gone = there(DOUBT.check(snapshot(*BOTH, failed(OLD), failed(NEW)), Observations()))
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
    found = there(DOUBT.check(snapshot(*BOTH), Observations()))
    assert (found.ended, found.reason, asked) == (Ended.REACHED, f"{OLD} hangs.", [LIMITS])
    assert WAIT.check(snapshot(*BOTH), Observations()) is None


def test_a_question_of_an_earlier_version_goes_on_as_it_was_asked() -> None:
    """It does not say why it was asked."""
    kept = {"condition": "Answered", "deployment": NEW_DEPLOYMENT, "holding": OLD_DEPLOYMENT}
    assert condition_from_json(kept, [Answered]) == WAIT
    assert condition_from_json(json.loads(json.dumps(DOUBT.to_json())), [Answered]) == DOUBT


def test_a_stream_that_was_stopped_meanwhile_stays_so() -> None:
    stop = [*BOTH, wanted("rest", "stop"), requested("stop", None), released(OLD, "stop", None)]
    assert "The stream is stopped by now." in there(look(*stop)).reason
    # With `restart` it was stopped before anybody was asked.
    assert Answered(NEW_DEPLOYMENT, "").check(snapshot(*stop), Observations()) is None
