from __future__ import annotations

from dataclasses import replace

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import HeartbeatAges, silence_limit
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


def test_an_observer_that_is_held_up_after_it_has_read_makes_nobody_older() -> None:
    now = 100.0
    ages = HeartbeatAges(lambda: now)
    assert ages.seconds(replace(beat(1), read_at=99.0), OLD) == 0.0
    now = 170.0  # what was read at 101 s is judged only now
    assert ages.seconds(replace(beat(1), read_at=101.0), OLD) == 1.0
    assert ages.seconds(replace(beat(1), read_at=99.5), OLD) == 0.0
    assert ages.seconds(replace(beat(2), read_at=102.0), OLD) == 0.0
    assert ages.seconds(replace(beat(2), read_at=171.0), OLD) == 1.0, "it was first judged at 170 s"


def test_a_driver_counts_as_lost_after_two_leases() -> None:
    assert silence_limit(30.0) == 60.0
