"""Spark's progress of a query as its script sees it: over all runs in this driver, and while another one holds.

In plain Spark a query that has made progress has a last one for ever, and scripts rely on that.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.lifecycle.texts import redact

# As many as Spark keeps of a run, by default (spark.sql.streaming.numRecentProgressUpdates).
KEPT = 100
# Spark 3 gives scripts the JSON itself.
_JSON_ONLY = not issubclass(StreamingQueryProgress, dict)
# 4.0.0 makes what scripts get of the JVM's own object, a later patch of it and all later versions of its JSON.
_CODE = getattr(vars(StreamingQuery)["lastProgress"].fget, "__code__", None)
_OF_OBJECT = "fromJObject" in getattr(_CODE, "co_names", ())
_OFFSETS = ("startOffset", "endOffset", "latestOffset")


class SeenProgress:
    """The progress of the earlier runs of a query in this driver, and of its batches in others that held since."""

    def __init__(self) -> None:
        # Oldest first: Java's arrays of Spark's progress of each run, and lists for scripts; with the last run that is
        # in them. Replaced as a whole: the script's threads read it at any time.
        self._kept: tuple[tuple[Sequence[Any], ...], StreamingQuery | None] = ((), None)
        self._newest: Mapping[str, Any] = {}

    def last(self, run: StreamingQuery | None) -> Any:
        """Return the last progress, of this run if it has made any; None when there was none in this driver."""
        past, kept = self._kept
        found = None if run is None or run is kept else run.lastProgress
        return _seen(past[-1][len(past[-1]) - 1]) if found is None and past else found

    def recent(self, run: StreamingQuery | None) -> list[Any]:
        """Return the last progresses, oldest first, at the end those of this run."""
        past, kept = self._kept
        found = [] if run is None or run is kept else list(run.recentProgress)
        before = [_seen(each) for part in past for each in part] if len(found) < KEPT else []
        return [*before, *found][-max(KEPT, len(found)) :]

    def keep(self, run: StreamingQuery) -> None:
        """Remember Spark's progress of a run that is over; texts stay in the JVM until a script asks for them."""
        past, kept = self._kept
        if run is kept:
            return
        said = run._jsq.recentProgress()
        if len(said):
            past, self._newest = _last_parts((*past, said)), {}
        self._kept = past, run

    def follow(self, body: Mapping[str, Any]) -> None:
        """Add what the driver that holds says, unless it is no news, or this driver's script has seen none so far.

        Spark's observations for the script (`observedMetrics`) are left out: they stay as they were.
        """
        past, kept = self._kept
        if not past:
            return
        last = past[-1][len(past[-1]) - 1]
        newest = self._newest or json.loads(last.json())
        told = {**newest, **body}  # another Spark may leave something out
        if told == newest or told["batchId"] < newest["batchId"]:
            return
        before, found = _seen(last), as_seen(told)
        if "observedMetrics" in before:
            found["observedMetrics"] = before["observedMetrics"]
        self._kept, self._newest = (_last_parts((*past, [found])), kept), told


def told_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return Spark's progress as a heartbeat tells it to the scripts of other drivers: without what people observe."""
    said = {name: value for name, value in body.items() if name != "observedMetrics"}
    said["sources"] = [_described(source) for source in body.get("sources", ())]
    said["sink"] = _described(body.get("sink", {}))
    return said


def as_seen(body: Mapping[str, Any]) -> Any:
    """Return the object that a script of this Spark gets for the JSON of a progress."""
    if _JSON_ONLY:
        return dict(body)
    # Offsets are JSON in JSON: pyspark writes them as Python does, and of the JVM's object takes them as they are.
    sources = [{**s, **{name: _text(s.get(name)) for name in _OFFSETS}} for s in body.get("sources", ())]
    return StreamingQueryProgress.fromJson({**body, "sources": sources})


def _described(part: Mapping[str, Any]) -> dict[str, Any]:
    # A source of a third party may describe itself by its options.
    return {**part, "description": redact(str(part.get("description", "")))}


def _text(offset: Any) -> Any:
    as_it_is = offset is None or isinstance(offset, str) or not _OF_OBJECT
    return offset if as_it_is else json.dumps(offset, separators=(",", ":"))


def _seen(said: Any) -> Any:
    if isinstance(said, dict):
        return said
    return StreamingQueryProgress.fromJObject(said) if _OF_OBJECT else as_seen(json.loads(said.json()))


def _last_parts(parts: tuple[Sequence[Any], ...]) -> tuple[Sequence[Any], ...]:
    """Leave out the oldest ones that scripts do not see any more."""
    count = 0
    for number in reversed(range(len(parts))):
        count += len(parts[number])
        if count >= KEPT:
            return parts[number:]
    return parts


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
