"""The gaps that the changes of holder in a stream's life have left, as far as they can still be told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_stream_provider.hooks.gaps import gaps
from airflow_stream_provider.monitoring.life_event import LifeEvent
from airflow_stream_provider.planning.snapshot import Snapshot


def with_gaps(snapshot: Snapshot, events: Iterable[LifeEvent]) -> list[LifeEvent]:
    """Return the events with their gaps.

    No record holds a gap: they are measured by the commits that Spark keeps, about the last 100 of each query, or told
    by the driver that holds. So those of long ago are not known.
    """
    # The checkpoints of a driver that the state has left out are not known.
    known = snapshot.state.incarnations
    acquired = {r.seq: r for r in snapshot.acquisitions() if r["incarnation"] in known}
    return [
        replace(event, gap_seconds=gaps(snapshot, acquired[event.seq])) if event.seq in acquired else event
        for event in events
    ]
