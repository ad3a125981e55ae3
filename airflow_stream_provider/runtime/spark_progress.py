"""Spark's progress of a query as its script sees it: over all runs in this driver, and while another one holds.

In plain Spark a query that has made progress has a last one for ever, and scripts rely on that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.lifecycle.secrets import redact

# As many as Spark keeps of a run, by default (spark.sql.streaming.numRecentProgressUpdates).
KEPT = 100
# Spark 3 gives scripts the JSON itself.
_JSON_ONLY = not issubclass(StreamingQueryProgress, dict)
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
    # pyspark writes offsets, which are JSON in JSON, as Python does.
    sources = [{**s, **{name: _text(s.get(name)) for name in _OFFSETS}} for s in body.get("sources", ())]
    return StreamingQueryProgress.fromJson({**body, "sources": sources})


def _described(part: Mapping[str, Any]) -> dict[str, Any]:
    # A source of a third party may describe itself by its options.
    return {**part, "description": redact(str(part.get("description", "")))}


def _text(offset: Any) -> Any:
    return offset if offset is None or isinstance(offset, str) else json.dumps(offset, separators=(",", ":"))


def _seen(said: Any) -> Any:
    if isinstance(said, dict):
        return said
    return json.loads(said.json()) if _JSON_ONLY else StreamingQueryProgress.fromJObject(said)


def _last_parts(parts: tuple[Sequence[Any], ...]) -> tuple[Sequence[Any], ...]:
    """Leave out the oldest ones that scripts do not see any more."""
    count = 0
    for number in reversed(range(len(parts))):
        count += len(parts[number])
        if count >= KEPT:
            return parts[number:]
    return parts
