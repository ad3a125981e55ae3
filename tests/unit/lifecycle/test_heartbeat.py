"""A heartbeat through its file, also of an older or newer driver; and files that are none."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lifecycle import heartbeat
from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.heartbeat import (
    HEARTBEAT_LIMIT,
    Batch,
    Commit,
    DriverPhase,
    Heartbeat,
    OffsetRange,
    OffsetsGroupStatus,
    QueryHealth,
    QueryProgress,
)
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals

LIMIT = HEARTBEAT_LIMIT // 4  # so that a heartbeat is soon larger
OUT = QueryProgress(
    name="out",
    checkpoint="/data/out",
    sink="kafka",
    id="0f3c",
    batch=7,
    batch_seconds=0.5,
    input_rows=10,
    rows_per_second=20.0,
    triggered_at="2025-01-01T00:00:00.000Z",
    committed=({"orders": {"0": 10}}, None, {"logOffset": 5}),
    commits=(Commit(100.0, {"orders": {"0": 5}}), Commit(101.0)),
    ended=True,
    gap_seconds=0.7,
    state_rows=3,
    state_bytes=400,
    batches=(Batch(6, 99.0, 0.5, 4), Batch(7, 100.0, 0.5, 10)),
    failures=1,
    rows_exact=True,
    begun_at=90.0,
    quiet_seconds=2.0,
    spark={"batchId": 7, "sources": [{"endOffset": {"orders": {"0": 10}}}]},
    health=QueryHealth("retrying", 5.0, 3, "ValueError: bad", batch=8, ranges=(OffsetRange("orders-0", "5", "9"),)),
)
FULL = Heartbeat(
    counter=9,
    at=100.5,
    phase=DriverPhase.RUNNING.value,
    message="runs",
    seq=12,
    epoch=2,
    queries=(OUT, QueryProgress("totals")),
    offsets_group=OffsetsGroupStatus(99.5, "no broker answers"),
    rehearsal={"seconds": 3.5},
    started_at=90.5,
    rewind="out goes back after batch 6.",
    rewind_undone=True,
    pid=1,
    jvm_pid=2,
    host="here",
    spark_version="4.0.0",
    submission="driver-1",
    application_id="app-1",
    ui_url="http://127.0.0.1:4040",
    executor_hosts=("here", "there"),
    vitals=Vitals(at=90.0, heap_max=2**30, queries={"out": QueryVitals({"addBatch": 3.0}, fit=(0.1, 0.2))}),
)


@pytest.mark.parametrize("beat", [Heartbeat(), FULL])
def test_what_was_written_is_read(beat: Heartbeat) -> None:
    assert Heartbeat.from_json(beat.to_json(), "x.1") == beat


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_LIMIT", LIMIT)


def of(queries: int, partitions: int, *, commits: int = 10, message: str = "It fails.") -> Heartbeat:
    """The heartbeat of a driver of so many queries, which read so many partitions each."""
    offsets = {"orders": {str(partition): 1_234_567_890 for partition in range(partitions)}}
    window = tuple(Commit(100.0 + number, offsets) for number in range(commits))
    spark = {"startOffset": offsets, "endOffset": offsets, "latestOffset": offsets}
    progress = [
        QueryProgress(f"q{i}", batch=7, committed=(offsets,), commits=window, spark=spark) for i in range(queries)
    ]
    return Heartbeat(counter=3, message=message, queries=tuple(progress), rehearsal={"seconds": 1.0})


@pytest.mark.parametrize(
    ("beat", "left_out"),
    [
        (of(30, 200), "the offsets of the last commits"),
        (of(6, 10_000, commits=1), "all offsets"),
        (of(5_000, 1, commits=0), "all that is said of the queries"),
        (of(20, 200), "what Spark itself says"),
        (of(1, 1, message="x" * LIMIT), "what Spark itself says"),
    ],
)
def test_a_heartbeat_is_never_too_large_for_its_readers(beat: Heartbeat, left_out: str, limit: None) -> None:
    """Found by a review: a healthy driver of many queries was taken for dead, and killed again and again."""
    stored = beat.to_json()
    assert len(stored) <= LIMIT
    found = Heartbeat.from_json(stored, "x.1")
    assert found.counter == 3
    assert found.message.startswith(f"Left out, to stay below {LIMIT} bytes: {left_out}. {beat.message[:9]}")
    for query in found.queries:
        before = beat.queries[0].commits
        commits = before if left_out == "what Spark itself says" else (Commit(before[-1].at),)
        assert (query.batch, query.commits, query.spark) == (7, commits, {})
        assert query.committed == (() if left_out == "all offsets" else beat.queries[0].committed)


def test_nothing_is_left_out_of_a_heartbeat_that_readers_take(limit: None) -> None:
    beat = of(15, 200)
    assert Heartbeat.from_json(beat.to_json(), "x.1") == beat


@pytest.mark.parametrize(("full", "empty"), [(FULL, Heartbeat()), (OUT, QueryProgress(""))])
def test_every_field_differs_from_its_default_above(full: Any, empty: Any) -> None:
    """So that a field that gets lost on its way is noticed."""
    assert [f.name for f in fields(full) if getattr(full, f.name) == getattr(empty, f.name)] == []


@pytest.mark.parametrize(
    ("stored", "beat"),
    [
        ({}, Heartbeat()),
        ({"counter": 3, "of_next_year": [1]}, Heartbeat(counter=3)),
        ({"phase": "dreaming"}, Heartbeat(phase="dreaming")),
        ({"queries": [{"name": "a", "of_next_year": 1}]}, Heartbeat(queries=(QueryProgress("a"),))),
        (
            {"queries": [{"name": "a", "commits": [{"at": 1, "of_next_year": 1}]}]},
            Heartbeat(queries=(QueryProgress("a", commits=(Commit(1),)),)),
        ),
        ({"offsets_group": {"at": 1.0, "of_next_year": 1}}, Heartbeat(offsets_group=OffsetsGroupStatus(1.0))),
    ],
)
def test_a_driver_of_another_version_is_understood_as_far_as_it_is_known(
    stored: dict[str, Any], beat: Heartbeat
) -> None:
    assert Heartbeat.from_json(json.dumps(stored).encode(), "x.1") == beat


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"3",
        b"null",
        b'{"counter": "many"}',
        b'{"counter": null}',
        b'{"queries": [{}]}',
        b'{"queries": ["out"]}',
        b'{"queries": 5}',
        b'{"queries": [{"name": "a", "committed": 5}]}',
        b'{"queries": [{"name": "a", "commits": [{}]}]}',
        b'{"queries": [{"name": "a", "commits": [5]}]}',
        b'{"queries": [{"name": "a", "commits": [{"at": NaN}]}]}',
        b'{"queries": [{"name": "a", "commits": [{"at": 1, "offsets": 5}]}]}',
        b'{"offsets_group": 5}',
        b"[" * 100_000,
        b'{"counter": 1, "rehearsal": ' + b'{"a": ' * 100_000 + b"1" + b"}" * 100_001,
        b'{"counter": ' + b"9" * 5000 + b"}",
        b'{"counter": Infinity}',
        b'{"message": 5}',
        b'{"queries": [{"name": "a", "batch": "1"}]}',
    ],
)
def test_what_is_no_heartbeat_is_said_with_whose_it_is(stored: bytes) -> None:
    with pytest.raises(Damaged, match=r"The heartbeat of orders-1-a\.00000001 is not readable") as refused:
        Heartbeat.from_json(stored, "orders-1-a.00000001")
    assert refused.value.fields["incarnation"] == "orders-1-a.00000001"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*vars(FULL), "name"]), inner),
    max_leaves=8,
)


@given(st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_stored_is_a_heartbeat_or_damaged(stored: bytes) -> None:
    try:
        beat = Heartbeat.from_json(stored, "orders-1-a.00000001")
    except Damaged:
        return
    assert isinstance(beat.counter, int)
    beat.to_json()


def test_a_query_is_found_by_its_name() -> None:
    assert FULL.query("out") == OUT
    assert FULL.query("none") is None


ILL = QueryHealth(
    "retrying",
    61.5,
    7,
    "ValueError: bad",
    "OSError: full",
    8,
    (OffsetRange("orders-3", "5", "9"), OffsetRange("orders-4", end="2")),
    12,
    "The log ended earlier.",
    3.0,
)


def test_it_is_read_as_it_was_written_also_of_a_newer_driver() -> None:
    written = json.loads(json.dumps(ILL.to_json()))
    written["new"] = written["ranges"][0]["new"] = 1
    assert QueryHealth.from_json(written) == ILL


@pytest.mark.parametrize("said", [{"ranges": [5]}, {"seconds": "long"}, {"ranges": [{"source": 5}]}])
def test_what_cannot_be_read_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"is no|is 'long'|source is 5"):
        QueryHealth.from_json(said)


def test_what_a_batch_reads_is_said_in_words() -> None:
    assert ILL.reads == "orders-3 from 5 to 9, orders-4 from ? to 2 and 12 more"
    assert QueryHealth().reads == ""
