from __future__ import annotations

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from chaos.sightings import GAP_SECONDS, Sighting, Span


def sighting(*seen: tuple[int, str, float]) -> list[Span]:
    found = Sighting()
    for counter, phase, at in seen:
        found.saw(Heartbeat(counter=counter, phase=phase), at)
    return found.spans


def test_a_driver_runs_from_its_first_heartbeat_that_says_so_to_its_last() -> None:
    beats = ((1, "standby", 1.0), (2, "running", 2.0), (3, "running", 3.0), (4, "releasing", 4.0), (5, "standby", 5.0))
    assert sighting(*beats) == [Span(2.0, 4.0)]
    assert sighting(*beats, (6, "running", 6.0), (7, "running", 7.0)) == [Span(2.0, 4.0), Span(6.0, 7.0)]


def test_the_heartbeat_of_a_dead_driver_says_nothing_more() -> None:
    assert sighting((1, "running", 1.0), (2, "running", 2.0), (2, "running", 90.0)) == [Span(1.0, 2.0)]


def test_a_heartbeat_that_a_frozen_driver_writes_when_it_wakes_is_a_span_of_its_own() -> None:
    woke = 2.0 + GAP_SECONDS
    assert sighting((1, "running", 1.0), (2, "running", 2.0), (3, "running", woke)) == [
        Span(1.0, 2.0),
        Span(woke, woke),
    ]
