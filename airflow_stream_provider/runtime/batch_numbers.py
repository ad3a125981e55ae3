"""Numbers of batches, from Spark's progress of them (`StreamingQueryProgress`, as JSON)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any


def rows_of(progress: Mapping[str, Any]) -> int:
    """Return how many rows a batch had: of Kafka the offsets that it went through, of other sources what Spark counts.

    Spark counts a row once for each action of a foreachBatch function that reads it, unless the function has cached the
    batch. A query's very first batch names no start: that count stands for Kafka, too.
    """
    sources = progress.get("sources")
    if not sources:
        return int(progress.get("numInputRows", 0))
    return sum(_rows_of_source(source) for source in sources)


def counts_once(progress: Mapping[str, Any]) -> bool:
    """Return whether `rows_of` does not depend on how often a function of foreachBatch reads the batch."""
    sources = progress.get("sources", ())
    return bool(sources) and all(_reads_kafka(source) for source in sources)


def _reads_kafka(source: Mapping[str, Any]) -> bool:
    return str(source.get("description", "")).startswith("KafkaV2[")


def _rows_of_source(source: Mapping[str, Any]) -> int:
    counted = int(source.get("numInputRows", 0))
    start, end = source.get("startOffset"), source.get("endOffset")
    if not _reads_kafka(source) or not isinstance(start, dict) or not isinstance(end, dict):
        return counted
    rows = 0
    for topic, offsets in end.items():
        for partition, offset in offsets.items():
            began = start.get(topic, {}).get(partition)
            # Spark reads a partition that it has just found from its first record, which is nearly always number 0.
            rows += max(0, offset - began) if began is not None else min(offset, counted)
    return rows


def state_of(progress: Mapping[str, Any]) -> tuple[int, int]:
    """Return rows and memory in bytes of the state of all stateful operators together."""
    operators = progress.get("stateOperators", ())
    rows = sum(operator.get("numRowsTotal", 0) for operator in operators)
    return rows, sum(operator.get("memoryUsedBytes", 0) for operator in operators)


def summary_of(batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many batches a warm-up has run, how long each took, and how many rows it had."""
    seconds = [batch["durationMs"].get("triggerExecution", 0) / 1000 for batch in batches]
    each = [rows_of(batch) for batch in batches]
    return {
        "batches": len(batches),
        "batch_seconds": [round(second, 3) for second in seconds],
        "batch_rows": each,
        "last_batch_seconds": seconds[-1] if seconds else None,
        "median_batch_seconds": statistics.median(seconds) if seconds else None,
        "rows": sum(each),
        "rows_per_second": round(sum(each) / sum(seconds), 1) if sum(seconds) else None,
    }


def again_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a batch took that another driver has run, too."""
    state_rows, state_bytes = state_of(batch)
    return {
        "batch": batch["batchId"],
        "rows": rows_of(batch),
        "seconds": batch["durationMs"].get("triggerExecution", 0) / 1000,
        "state_rows": state_rows,
        "state_bytes": state_bytes,
    }
