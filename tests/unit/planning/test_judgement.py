"""Whether a rehearsal passes, and when any release is better than what runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.comparison import Compared, Comparison
from airflow_stream_provider.planning.judgement import broken, judge_rehearsal
from airflow_stream_provider.planning.snapshot import Snapshot
from tests.support.rehearsals import again, running
from tests.support.snapshots import BOTH, snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, acquired, failed, fenced, ready, record, released, requested


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
        ([requested("stop", None), released(OLD, "stop", None)], False, ""),
        ([requested("x", NEW), ready("x", NEW), released(OLD, "x", NEW)], False, ""),
    ],
    ids=["alive", "silent", "failed", "fenced", "stopped", "changing hands"],
)
def test_any_release_is_better_than_a_stream_that_nobody_runs(more: list[Record], lost: bool, says: str) -> None:
    found = broken(snapshot(*again(1.0), *more), lost=lost)
    assert found.startswith(says) if says else not found
