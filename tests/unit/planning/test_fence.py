"""Who is fenced, when, and what the record says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.fence import fence, fence_first, may_fence
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Kill, Refusal, Refuse
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import snapshot
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    STARTED,
    failed,
    fenced,
    fencing,
    finished,
    record,
    retired,
)

GONE = {"counter": 3, "cluster": "gone"}
RELEASE = {"version": "1", "hash": "0" * 64}
HASTY = [
    record(
        "declared",
        deployment="d",
        release=RELEASE,
        policy={"lease_seconds": 5.0, "pause_seconds": 60.0},
        reason="",
    )
]


@pytest.mark.parametrize(
    "outcome",
    [None, WaitOutcome(Ended.SILENT, OLD), WaitOutcome(Ended.DEAD, NEW), WaitOutcome(Ended.GONE, OLD)],
    ids=["before any wait", "silent", "another is dead", "gone"],
)
def test_a_driver_is_killed_until_it_is_this_driver_that_is_confirmed_dead(outcome: WaitOutcome | None) -> None:
    declared = Append("fencing", {"incarnation": OLD, "reason": "why"})
    assert fence(snapshot(*PREPARED), OLD, outcome, "why") == declared, "a kill is declared before it is done"
    later = snapshot(*PREPARED, fencing(OLD))
    assert fence(later, OLD, outcome, "why") == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))


def test_a_driver_that_has_beaten_since_it_was_found_dead_is_not_fenced() -> None:
    dead = WaitOutcome(Ended.DEAD, OLD, evidence=GONE, counters={OLD: 3})
    beats = replace(snapshot(*RUNNING, fencing(OLD)), heartbeats={OLD: Heartbeat(counter=4)})
    assert fence(beats, OLD, dead, "why") == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    assert fence_first(beats, dead) is None
    still = replace(beats, heartbeats={OLD: Heartbeat(counter=3)})
    assert fence_first(still, dead) == Append("fenced", {"incarnation": OLD, "reason": "", "evidence": GONE})


def test_the_record_says_when_the_driver_gave_its_last_sign_of_life() -> None:
    beats = {OLD: Heartbeat(counter=7, at=83.0)}
    dead = WaitOutcome(Ended.DEAD, OLD, evidence=GONE, counters={OLD: 7})
    step = fence(replace(snapshot(*RUNNING, at=130.0), heartbeats=beats), OLD, dead, "why")
    assert isinstance(step, Append)
    assert step.fields["evidence"] == {**GONE, "last_sign": 83.0}


def test_one_that_was_lost_as_a_standby_and_holds_since_is_not_fenced_as_a_standby() -> None:
    lost = WaitOutcome(Ended.DEAD, NEW, evidence={"may_write": False}, counters={NEW: 3})
    still = {NEW: Heartbeat(counter=3)}
    fenced_as = Append("fenced", {"incarnation": NEW, "reason": "", "evidence": {"may_write": False}})
    assert fence_first(replace(snapshot(*PREPARED), heartbeats=still), lost) == fenced_as
    # It was back and has acquired between the two looks, and its next heartbeat is not there yet.
    assert fence_first(replace(snapshot(*HANDED_OVER), heartbeats=still), lost) is None


def test_the_record_carries_the_evidence_and_the_reason() -> None:
    step = fence(snapshot(*RUNNING), OLD, WaitOutcome(Ended.DEAD, OLD, evidence=GONE), "why")
    assert step == Append("fenced", {"incarnation": OLD, "reason": "why", "evidence": GONE})


COMMITTED = QueryProgress("a", batch=7, commits=(Commit(1.0),))
IDLE = QueryProgress("a", batch=7)


def test_what_a_query_has_committed_that_started_late_says_nothing_while_others_are_to_read_again() -> None:
    """Found by a review: the log took the rewind for done, and nobody did it."""
    dead, look = WaitOutcome(Ended.DEAD, OLD, evidence=GONE), snapshot(*RUNNING)
    look = replace(look, state=replace(look.state, rewinder=OLD))
    begun = Heartbeat(epoch=1, queries=(COMMITTED, IDLE))
    for beat, said in ((begun, {}), (replace(begun, rewind="a goes back."), {"committed": True})):
        step = fence(replace(look, heartbeats={OLD: beat}), OLD, dead, "why")
        assert step == Append("fenced", {"incarnation": OLD, "reason": "why", "evidence": GONE, **said})


@pytest.mark.parametrize(
    ("beat", "said"),
    [
        (Heartbeat(epoch=1, queries=(COMMITTED, IDLE)), {"committed": True}),
        (Heartbeat(epoch=1, queries=(IDLE,)), {"committed": False}),
        (Heartbeat(epoch=0, queries=(IDLE,)), {}),
        (Heartbeat(epoch=1), {}),
        (None, {}),
    ],
    ids=["has committed", "has not", "from before its hold", "says nothing of queries", "none"],
)
def test_the_record_says_whether_the_holder_had_committed(beat: Heartbeat | None, said: dict[str, Any]) -> None:
    dead = WaitOutcome(Ended.DEAD, OLD, evidence=GONE)
    look = replace(snapshot(*RUNNING), heartbeats={OLD: beat} if beat else {})
    step = fence(look, OLD, dead, "why")
    assert step == Append("fenced", {"incarnation": OLD, "reason": "why", "evidence": GONE, **said})
    # Of a standby it says nothing.
    standby = fence(
        replace(snapshot(*PREPARED), heartbeats={NEW: Heartbeat(epoch=1, queries=(COMMITTED,))}),
        NEW,
        WaitOutcome(Ended.DEAD, NEW, evidence=GONE),
        "why",
    )
    assert standby == Append("fenced", {"incarnation": NEW, "reason": "why", "evidence": GONE})


BY_LEDGER = [
    replace(each, fields={**each.fields, "policy": {"ledger": "orders_db"}}) if each.kind == "declared" else each
    for each in [*RUNNING, fencing(OLD)]
]
A = QueryProgress("a", id="q1", spark={"durationMs": {"addBatch": 9}, "stateOperators": []})
IDLE = replace(A, spark={"durationMs": {}, "stateOperators": []})
REFUSAL = Refusal("orders_db", OLD, 1, ("q1",))
REFUSABLE = WaitOutcome(Ended.DEAD, OLD, evidence={"may_write": True, "ledger": True}, counters={OLD: 3})


def by_ledger(*queries: QueryProgress, records: list[Record] = BY_LEDGER, **beat: Any) -> Snapshot:
    beats = {OLD: Heartbeat(**{"counter": 3, "epoch": 1, "queries": queries, **beat})}
    return replace(snapshot(*records), heartbeats=beats)


@pytest.mark.parametrize(
    ("queries", "refusal"),
    [
        ([A], REFUSAL),
        ([A, replace(A, name="over", id="q2", ended=True)], replace(REFUSAL, queries=("q1", "q2"))),
        ([A, replace(A, name="late", id="q2")], replace(REFUSAL, queries=("q1", "q2"))),
        ([A, replace(IDLE, name="late", id="q2")], None),
        ([IDLE], None),
        ([replace(A, id="")], None),
        ([replace(A, spark={**A.spark, "stateOperators": [{"numRowsTotal": 1}]})], None),
        ([replace(A, name="late")], None),
        ([], None),
    ],
    ids=["one", "one is over", "late", "late and idle", "idle", "without an id", "state", "another", "none"],
)
def test_what_goes_by_a_ledger_alone_is_refused_there_last_of_all(
    queries: list[QueryProgress], refusal: Refusal | None
) -> None:
    look = by_ledger(*queries)
    kill = Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0, ledger=refusal is not None))
    assert fence(look, OLD, None, "why") == kill
    step = fence(look, OLD, REFUSABLE, "why")
    if refusal is None:
        assert step == kill, "what was so when the wait began is not so any more"
        return
    assert isinstance(step, Refuse)
    assert (step.refusal, step.then) == (refusal, Dead(OLD, 30.0))
    assert (step.fenced.kind, step.fenced.fields["evidence"]) == ("fenced", {"may_write": True, "ledger": True})
    assert fence(by_ledger(*queries, counter=4), OLD, REFUSABLE, "why") == kill, "it has beaten since"


def test_an_idle_query_whose_plan_has_no_state_is_refused() -> None:
    plain = [
        replace(each, fields={**each.fields, "queries": [{"name": "a", "fingerprint": []}]})
        if each.kind == "standby"
        else each
        for each in BY_LEDGER
    ]
    assert fence(by_ledger(IDLE, records=plain), OLD, None, "why") == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0, ledger=True))


def test_what_may_do_more_than_write_by_a_ledger_is_not_refused() -> None:
    look = by_ledger(A)
    without = replace(look, heartbeats={})
    rewinds = replace(look, state=replace(look.state, rewinder=OLD))
    stands_by = by_ledger(A, records=[*BY_LEDGER[: len(STARTED)], fencing(OLD)])
    for each in (without, rewinds, stands_by, by_ledger(A, epoch=0)):
        assert fence(each, OLD, None, "why") == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))


def test_the_counter_is_watched_for_the_lease_of_that_driver() -> None:
    step = fence(snapshot(*HASTY), "d.00000001", None, "why")
    assert step == Kill("d", Dead("d.00000001", 5.0, 60.0))


@pytest.mark.parametrize(
    ("records", "name", "may"),
    [
        (RUNNING, OLD, True),
        (PREPARED, NEW, True),
        (HANDED_OVER, OLD, True),
        (INTERRUPTED, OLD, True),
        ([*INTERRUPTED, fenced(OLD)], OLD, False),
        ([*RUNNING, fenced(OLD)], OLD, False),
        ([*RUNNING, finished(OLD)], OLD, False),
        ([*PREPARED, failed(NEW)], NEW, False),
        ([*HANDED_OVER, retired(OLD_DEPLOYMENT)], OLD, False),
        (RUNNING, NEW, False),
        ([], OLD, False),
    ],
)
def test_only_a_driver_that_may_still_write_is_fenced(records: list[Record], name: str, may: bool) -> None:
    assert may_fence(snapshot(*records), name) is may


def test_what_stopped_inside_a_batch_comes_first() -> None:
    found = snapshot(*INTERRUPTED, fencing(OLD))
    assert fence_first(found, None) == Kill(OLD_DEPLOYMENT, Dead(OLD, 30.0))
    dead = WaitOutcome(Ended.DEAD, OLD, "its cluster says so", GONE)
    step: Any = fence_first(snapshot(*INTERRUPTED), dead)
    assert (step.kind, step.fields["incarnation"], step.fields["reason"]) == ("fenced", OLD, "its cluster says so")


def test_a_driver_confirmed_dead_is_fenced_though_the_stream_has_gone_on() -> None:
    step: Any = fence_first(snapshot(*HANDED_OVER), WaitOutcome(Ended.DEAD, OLD, "it is gone", GONE))
    assert (step.kind, step.fields) == ("fenced", {"incarnation": OLD, "reason": "it is gone", "evidence": GONE})


@pytest.mark.parametrize(
    "outcome", [None, WaitOutcome(Ended.DEAD, OLD), WaitOutcome(Ended.DEAD, "unknown"), WaitOutcome(Ended.REACHED, OLD)]
)
def test_there_may_be_nobody_to_fence(outcome: WaitOutcome | None) -> None:
    assert fence_first(snapshot(*RUNNING, fenced(OLD)), outcome) is None
