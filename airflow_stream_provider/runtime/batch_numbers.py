"""Numbers of batches, from Spark's progress of them (`StreamingQueryProgress`, as JSON)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any


def state_of(progress: Mapping[str, Any]) -> tuple[int, int]:
    """Return rows and memory in bytes of the state of all stateful operators together."""
    operators = progress.get("stateOperators", ())
    rows = sum(operator.get("numRowsTotal", 0) for operator in operators)
    return rows, sum(operator.get("memoryUsedBytes", 0) for operator in operators)


def summary_of(batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many batches a warm-up has run, how long each took, and how many rows it had."""
    seconds = [batch["durationMs"].get("triggerExecution", 0) / 1000 for batch in batches]
    each = [batch.get("numInputRows", 0) for batch in batches]
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
        "rows": batch.get("numInputRows", 0),
        "seconds": batch["durationMs"].get("triggerExecution", 0) / 1000,
        "state_rows": state_rows,
        "state_bytes": state_bytes,
    }
