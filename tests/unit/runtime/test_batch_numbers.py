"""What is made of Spark's progress."""

from __future__ import annotations

from airflow_stream_provider.runtime.batch_numbers import again_of, state_of, summary_of

PROGRESS = {
    "batchId": 7,
    "numInputRows": 30,
    "durationMs": {"addBatch": 1200, "triggerExecution": 1500},
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 100}, {"numRowsTotal": 4, "memoryUsedBytes": 200}, {}],
}


def test_the_state_of_all_operators_counts() -> None:
    assert state_of(PROGRESS) == (7, 300)
    assert state_of({}) == (0, 0)


def test_a_batch_that_another_driver_ran_too() -> None:
    assert again_of(PROGRESS) == {"batch": 7, "rows": 30, "seconds": 1.5, "state_rows": 7, "state_bytes": 300}


def test_a_warm_up() -> None:
    other = {"numInputRows": 6, "durationMs": {"triggerExecution": 300}}
    assert summary_of([PROGRESS, other]) == {
        "batches": 2,
        "batch_seconds": [1.5, 0.3],
        "batch_rows": [30, 6],
        "last_batch_seconds": 0.3,
        "median_batch_seconds": 0.9,
        "rows": 36,
        "rows_per_second": 20.0,
    }


def test_a_warm_up_without_a_batch() -> None:
    found = summary_of([])
    assert (found["batches"], found["batch_rows"], found["rows"]) == (0, [], 0)
    assert found["last_batch_seconds"] is found["median_batch_seconds"] is found["rows_per_second"] is None
