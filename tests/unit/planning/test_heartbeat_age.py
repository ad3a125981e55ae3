from __future__ import annotations

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.heartbeat_age import HeartbeatAges, silence_limit
from airflow_stream_provider.planning.snapshot import Snapshot
from tests.support.snapshots import RUNNING, snapshot
from tests.support.story import OLD


def beat(counter: int) -> Snapshot:
    found = snapshot(*RUNNING)
    return Snapshot(found.stream, found.at, found.state, found.records, {OLD: Heartbeat(counter=counter)})


def test_an_age_counts_from_the_first_look_that_saw_the_counter() -> None:
    now = 100.0
    ages = HeartbeatAges(lambda: now)
    assert ages.seconds(beat(1), OLD) == 0.0
    now = 107.0
    assert ages.seconds(beat(1), OLD) == 7.0
    assert ages.seconds(beat(2), OLD) == 0.0
    now = 110.0
    assert ages.seconds(beat(2), OLD) == 3.0


def test_a_driver_counts_as_lost_after_two_leases() -> None:
    assert silence_limit(30.0) == 60.0
