"""What an observer of a stream has seen, for tests of the conditions that tasks wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.waits import Observations
from tests.support.snapshots import snapshot


class Watch:
    """A memory whose clock the test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen = Observations(HeartbeatAges(lambda: self.now))


def seen(
    story: list[Any], counters: Mapping[str, int], drivers: Mapping[str, DriverFacts] | None = None, **fields: Any
) -> Snapshot:
    found = snapshot(*story, at=fields.pop("at", 110.0))
    beats = {name: Heartbeat(counter=counter) for name, counter in counters.items()}
    return Snapshot(found.stream, found.at, found.state, found.records, beats, drivers or {}, **fields)


def driver(state: DriverState, *, gone: bool = False) -> DriverFacts:
    return DriverFacts("driver-1", state, gone)
