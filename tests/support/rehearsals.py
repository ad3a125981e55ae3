"""How fast a small stream's holder is, and a standby of it that has run the holder's last batch again."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Batch, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from tests.support.snapshots import BOTH
from tests.support.story import NEW, NEW_DEPLOYMENT, record


def running(seconds: float, every: float, **more: Any) -> Heartbeat:
    """A holder that reads 1000 rows in so many seconds, every so often."""
    batches = tuple(Batch(n, n * every, seconds, 1000) for n in range(10))
    return Heartbeat(queries=(QueryProgress("a", batch=9, batches=batches, rows_exact=True),), **more)


def again(seconds: float) -> list[Record]:
    """A standby that took so long for the holder's last batch."""
    once_more = {"batch": 9, "rows": 1000, "seconds": seconds, "state_rows": 0, "state_bytes": 0}
    took = {"batch_rows": [1000, 1000], "batch_seconds": [90.0, seconds], "last_batch_seconds": 9.0, "rows_exact": True}
    summary = {"batches": 2, **took}
    rehearsal = {"queries": {"a": {**summary, "again": once_more}}, "notes": []}
    return [
        *BOTH[:-1],
        record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=[{"name": "a"}], rehearsal=rehearsal),
    ]
