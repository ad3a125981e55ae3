"""What is made of Spark's progress."""

from __future__ import annotations

from airflow_stream_provider.runtime.spark_progress import again_of, counts_once, rows_of, state_of, summary_of

PROGRESS = {
    "batchId": 7,
    "numInputRows": 30,
    "durationMs": {"addBatch": 1200, "triggerExecution": 1500},
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 100}, {"numRowsTotal": 4, "memoryUsedBytes": 200}, {}],
}


def kafka(start: object, end: object, counted: int) -> dict[str, object]:
    return {
        "description": "KafkaV2[Subscribe[in]]",
        "startOffset": start,
        "endOffset": end,
        "numInputRows": counted,
    }


def test_rows_of_kafka_are_offsets_however_often_a_function_reads_them() -> None:
    """Found by an audit: of three actions in a function, Spark's count was three times the offsets."""
    source = kafka({"in": {"0": 10, "1": 5}}, {"in": {"0": 20, "1": 10}}, 45)
    assert rows_of({"numInputRows": 45, "sources": [source]}) == 15
    assert counts_once({"sources": [source]})
    files = {"description": "FileStreamSource[/in]", "startOffset": {"logOffset": 1}, "numInputRows": 7}
    assert rows_of({"numInputRows": 52, "sources": [source, files]}) == 22
    assert not counts_once({"sources": [source, files]})
    assert not counts_once({"sources": []})


def test_a_partition_that_was_just_found_is_read_from_its_start() -> None:
    assert rows_of({"sources": [kafka({"in": {"0": 10}}, {"in": {"0": 20, "1": 4}}, 42)]}) == 14
    assert rows_of({"sources": [kafka({"in": {"0": 10}}, {"in": {"0": 20, "1": 10**9}}, 42)]}) == 52, (
        "not from number 0"
    )
    assert rows_of({"sources": [kafka(None, {"in": {"0": 20}}, 42)]}) == 42, "the first batch of all"


def test_event_hubs_that_look_like_it_are_no_kafka() -> None:
    hub = {**kafka({"hub": {"0": 1}}, {"hub": {"0": 900}}, 3), "description": "org.apache.spark.sql.eventhubs.Source"}
    assert (rows_of({"sources": [hub]}), counts_once({"sources": [hub]})) == (3, False)


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
