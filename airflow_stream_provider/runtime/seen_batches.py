"""The batches of a query as the heartbeat's looks see them, one a second: what they tell of its vitals. Pure."""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_stream_provider.runtime.spark_progress import rows_of, state_of

# Batches that a median is of.
BATCHES = 20
# A batch of so large a share of `maxOffsetsPerTrigger` is full.
FULL = 0.95
# Triggers by which the pace of what comes in is measured, and how long they must be apart at least.
TRIGGERS, PACE_SECONDS = 100, 10.0


class SeenBatches:
    """The batches of one query, as the heartbeat's looks have seen them, one a second."""

    def __init__(self) -> None:
        self._batches: deque[Mapping[str, Any]] = deque(maxlen=BATCHES)
        self._latest: deque[tuple[float, int]] = deque(maxlen=TRIGGERS)
        self._last: Mapping[str, Any] = {}
        self._looks = self._empty = self._late = 0
        self._best: float | None = None
        self._lock = threading.Lock()

    def note(self, body: Mapping[str, Any], now: float) -> None:
        """Note the last progress that Spark gives; the same one again and again, while no batch ends.

        :param now: seconds of a clock that only goes on.
        """
        if not body:
            return
        with self._lock:
            self._looks += 1
            self._empty += not _has_data(body)
            new = (body.get("batchId"), body.get("timestamp")) != (
                self._last.get("batchId"),
                self._last.get("timestamp"),
            )
            self._last = body
            if not new:
                return
            latest = _kafka_sum(body, "latestOffset")
            if latest is not None:
                self._latest.append((now, latest))
            self._late += sum(each.get("numRowsDroppedByWatermark", 0) for each in body.get("stateOperators", ()))
            if _has_data(body):
                self._batches.append(body)

    def vitals(self, most: int | None) -> dict[str, Any]:
        """Return the fields of `QueryVitals` that batches tell.

        :param most: `maxOffsetsPerTrigger` of the query's sources together; None: there is none.
        """
        with self._lock:
            batches, latest, last = [*self._batches], [*self._latest], self._last
            looks, empty, late = self._looks, self._empty, self._late
            self._looks = self._empty = 0
        parts = {part for each in batches for part in each["durationMs"]}
        records, operators = [rows_of(each) for each in batches], last.get("stateOperators", ())
        end, newest = _kafka_sum(last, "endOffset"), _kafka_sum(last, "latestOffset")
        full = None if not most or not records else [each >= FULL * most for each in records]
        rows, size = state_of(last)
        rates = [rows_of(each) / _seconds(each) for each, is_full in zip(batches, full or ()) if is_full]
        self._best = max(rates if self._best is None else [*rates, self._best], default=None)
        return {
            "durations": {
                p: statistics.median(each["durationMs"].get(p, 0) for each in batches) for p in sorted(parts)
            },
            "batches": len(batches),
            "records": _median(records),
            "rows": _median(each.get("numInputRows", 0) for each in batches),
            "full": None if full is None else sum(full) / len(full),
            "behind": None if end is None or newest is None else max(0, newest - end),
            "fit": line(records, [_seconds(each) for each in batches]),
            "best_rate": self._best,
            "arriving": _pace(latest),
            "empty_share": empty / looks if looks else None,
            "state_rows": rows if operators else None,
            "state_bytes": size if operators else None,
            "state_partitions": max((each.get("numShufflePartitions", 0) for each in operators), default=None),
            "state_commit_ms": _median(_commit_ms(each) for each in batches) if operators else None,
            "late_rows": late if operators else None,
        }


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float] | None:
    """Return a and b of y = a + b x by least squares; None without two different x."""
    if len(set(xs)) < 2:
        return None
    x, y = statistics.fmean(xs), statistics.fmean(ys)
    b = sum((u - x) * (v - y) for u, v in zip(xs, ys)) / sum((u - x) ** 2 for u in xs)
    return y - b * x, b


def _pace(latest: Sequence[tuple[float, int]]) -> float | None:
    if not latest or latest[-1][0] - latest[0][0] < PACE_SECONDS:
        return None
    return max(0.0, (latest[-1][1] - latest[0][1]) / (latest[-1][0] - latest[0][0]))


def _median(values: Iterable[float]) -> float | None:
    found = [*values]
    return statistics.median(found) if found else None


def _seconds(body: Mapping[str, Any]) -> float:
    return max(1.0, float(body["durationMs"].get("triggerExecution", 0))) / 1000


def _commit_ms(body: Mapping[str, Any]) -> float:
    return float(sum(each.get("commitTimeMs", 0) for each in body.get("stateOperators", ())))


def _has_data(body: Mapping[str, Any]) -> bool:
    return "addBatch" in body.get("durationMs", {}) and rows_of(body) > 0


def _kafka_sum(body: Mapping[str, Any], name: str) -> int | None:
    """Return the sum of the offsets of a query that reads Kafka alone; None of another one."""
    found = [source.get(name) for source in body.get("sources", ())]
    if not found or not all(isinstance(each, dict) for each in found):
        return None
    try:
        return sum(int(o) for each in found for offsets in each.values() for o in offsets.values())
    except (AttributeError, TypeError, ValueError):
        return None  # those of another source
