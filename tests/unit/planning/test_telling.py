"""What happens, and what the next driver reads again, in words; the sentences of each verb are in `golden/`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.telling import after_fence, next_start
from tests.support.snapshots import snapshot
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    OLD,
    RUNNING,
    STOPPED,
    failed,
    fenced,
    finished,
    record,
    requested,
)

CUT = "the batch that is cut off, if one is under way, as a whole and with the same records."
ASKED = [*RUNNING, requested("s", None)]
OF: dict[str, Any] = {"incarnation": OLD, "request": "s", "to": None}
CUT_ENDS = {"a": {"batch": 7, "boundary": "interrupted"}}
ENDS = {"a": {"batch": 7, "boundary": "completed"}}


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([], "nothing by this stream, as no driver has held it"),
        (RUNNING, CUT),
        (INTERRUPTED, CUT),
        ([*RUNNING, fenced(OLD)], CUT),
        (STOPPED, "nothing, as every query has stopped at a batch boundary."),
        ([*ASKED, record("released", **OF, boundary="interrupted", ends=CUT_ENDS), fenced(OLD)], CUT),
        ([*ASKED, record("released", **OF, boundary="completed", ends={"a": "b"})], CUT),
        ([*RUNNING, failed(OLD, boundary="completed", ends=ENDS)], "the batch that failed, if one did, as a whole"),
        ([*RUNNING, failed(OLD)], CUT),
        ([*RUNNING, finished(OLD)], CUT),
    ],
    ids=[
        "never held",
        "holds",
        "must be fenced",
        "fenced",
        "stopped",
        "cut and fenced",
        "ends that say nothing",
        "failed at a boundary",
        "failed somewhere",
        "finished without a word",
    ],
)
def test_what_the_next_driver_reads_again(records: list[Record], says: str) -> None:
    assert next_start(snapshot(*records)).startswith(says)


def test_the_batch_is_named_by_the_last_heartbeat() -> None:
    queries = (QueryProgress("a", batch=7), QueryProgress("b", batch=0), QueryProgress("c"))
    seen = replace(snapshot(*RUNNING), heartbeats={OLD: Heartbeat(queries=queries)})
    assert "(by its last heartbeat batch 8 of a, batch 1 of b, or a later one)" in after_fence(seen, OLD)


def test_what_a_lost_driver_was_to_read_again_is_told_to_whoever_starts_the_next() -> None:
    """Found by a review: whoever held next went back, and the command had said that a batch at most is read again."""
    wanted = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 5}}}}
    records = [
        replace(each, fields={**each.fields, "rewind": wanted}) if each.kind == "declared" else each
        for each in HANDED_OVER
    ]
    lost = snapshot(*records, fenced(NEW))
    says = "So are the records since 2025-11-24 16:00:00 UTC that orders-2-bbbb was to read again"
    assert next_start(lost).startswith(CUT)
    assert says in next_start(lost)
    assert says not in next_start(replace(lost, heartbeats={NEW: Heartbeat(rewind="a goes back after batch 7.")}))
    assert says not in next_start(snapshot(*records, fenced(NEW, committed=True)))
    assert says not in next_start(snapshot(*HANDED_OVER, fenced(NEW)))
