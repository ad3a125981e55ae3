"""What batches tell of a query's vitals, and that a heartbeat brings all of it to its reader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals
from airflow_stream_provider.runtime.seen_batches import SeenBatches, line
from airflow_stream_provider.runtime.vitals import reason_of


def batch(number: int, rows: int = 100, milliseconds: int = 300, end: int = 0, latest: int = 0) -> dict[str, Any]:
    offsets = {"startOffset": {"a": {"0": end - rows}}, "endOffset": {"a": {"0": end}}}
    return {
        "batchId": number,
        "timestamp": f"2026-11-29T10:{number // 60:02}:{number % 60:02}.000Z",
        "numInputRows": 3 * rows,
        "durationMs": {"addBatch": milliseconds - 100, "triggerExecution": milliseconds, "walCommit": 40},
        "sources": [{"description": "KafkaV2[Subscribe[a]]", "latestOffset": {"a": {"0": latest}}, **offsets}],
        "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 900, "numShufflePartitions": 4, "commitTimeMs": 80}],
    }


def idle(number: int, latest: int) -> dict[str, Any]:
    body = batch(number, rows=0, end=latest, latest=latest)
    return {**body, "numInputRows": 0, "durationMs": {"latestOffset": 3, "triggerExecution": 5}}


def test_medians_are_of_the_last_batches_with_data_and_records_count_once() -> None:
    seen = SeenBatches()
    for number in range(30):
        body = batch(number, 100 + number, 300 + 2 * number, end=1000 * number, latest=1000 * number + 50)
        for _ in range(3):  # Spark gives the same again until the next batch ends
            seen.note(body, float(number))
    seen.note(idle(30, 30_000), 30.0)
    found = QueryVitals(**seen.vitals(None))
    assert found.batches == 20
    assert (found.records, found.rows) == (119.5, 358.5)
    assert found.durations == {"addBatch": 239.0, "triggerExecution": 339.0, "walCommit": 40}
    assert found.fit == pytest.approx((0.1, 0.002))
    assert found.empty_share == pytest.approx(1 / 91)
    assert (found.behind, found.full, found.best_rate) == (0, None, None)
    assert (found.state_rows, found.state_bytes, found.state_partitions, found.state_commit_ms) == (5, 900, 4, 80)


def test_full_batches_their_best_rate_and_what_comes_in() -> None:
    seen = SeenBatches()
    for number, rows in enumerate((100, 96, 50, 100)):
        body = batch(number, rows, 500 if number else 250, end=100 * number, latest=1000 + 400 * number)
        body["stateOperators"][0]["numRowsDroppedByWatermark"] = number
        seen.note(body, 10.0 * number)
    found = QueryVitals(**seen.vitals(100))
    assert (found.full, found.best_rate, found.behind) == (0.75, 400.0, 1900)
    assert (found.arriving, found.late_rows) == (40.0, 6)


def test_the_best_rate_is_that_of_the_whole_life_of_the_driver() -> None:
    seen = SeenBatches()
    seen.note(batch(0, 100, 100), 0.0)
    assert seen.vitals(100)["best_rate"] == 1000.0
    for number in range(1, 40):
        seen.note(batch(number, 100, 500), float(number))
    assert seen.vitals(100)["best_rate"] == 1000.0


def test_of_another_source_no_offsets_are_made_up() -> None:
    seen = SeenBatches()
    body = {
        **batch(1),
        "sources": [{"description": "RateStreamV2", "startOffset": 1, "endOffset": 7, "latestOffset": 7}],
    }
    seen.note(body, 1.0)
    found = seen.vitals(None)
    assert (found["behind"], found["arriving"]) == (None, None)
    assert SeenBatches().vitals(None)["batches"] == 0


def test_a_line_needs_two_different_sizes() -> None:
    assert line([5, 5, 5], [1, 2, 3]) is None
    assert line([1, 2, 3], [3.0, 5.0, 7.0]) == pytest.approx((1.0, 2.0))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Command exited with code 137", "Command exited with code 137"),
        ("worker lost: worker-20261129-127.0.0.1-7078 is gone", "worker lost: … is gone"),
        ("Executor heartbeat timed out after 128000 ms", "Executor heartbeat timed out after … ms"),
        ("Unable to reach 10.0.0.7:4040, password=hunter2", None),
    ],
)
def test_a_reason_names_no_host_and_no_secret(said: str, reason: str | None) -> None:
    found = reason_of(said)
    assert "hunter2" not in found
    assert "10.0" not in found
    assert reason is None or found == reason


def test_a_heartbeat_carries_them_without_what_is_not_known() -> None:
    vitals = Vitals(
        at=5.0,
        heap_max=100,
        executors_lost={"lost": 2},
        queries={"q": QueryVitals(durations={"addBatch": 3.0}, fit=(0.1, 0.2), late_rows=0)},
    )
    data = Heartbeat(counter=1, vitals=vitals).to_json()
    assert Heartbeat.from_json(data, "d").vitals == vitals
    said = json.loads(data)["vitals"]
    assert "rss" not in said
    assert said["queries"]["q"] == {"batches": 0, "durations": {"addBatch": 3.0}, "fit": [0.1, 0.2], "late_rows": 0}


@pytest.mark.parametrize("said", [{"at": "never"}, [], {"queries": {"q": []}}, {"queries": {"q": {"fit": ["a"]}}}])
def test_a_driver_lives_whatever_its_vitals_are(said: Any) -> None:
    found = Heartbeat.from_json(json.dumps({"counter": 7, "vitals": said}).encode(), "d")
    assert (found.counter, found.vitals) == (7, None)
