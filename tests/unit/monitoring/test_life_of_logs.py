"""The lives that whole logs tell: a real one, the recorded one, and those of simulations full of faults."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.monitoring.life import life
from airflow_stream_provider.monitoring.life_event import What
from tests.support.control_root import new_log
from tests.support.recorded import lines
from tests.support.simulation.memo import shared_readings
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.seeds import Simulation
from tests.support.simulation.topic_wire import virtual_time
from tests.support.story import HANDED_OVER, write

CHANGES = (What.STARTED, What.REVIVED, What.HANDED_OVER, What.ROLLED_BACK, What.TAKEN_BACK)


def test_the_history_of_a_real_log_is_told(tmp_path: object) -> None:
    log = new_log(f"file://{tmp_path}")
    write(log, *HANDED_OVER)
    reader = ControlLog(log.store, "orders")
    state = reader.refresh()
    assert [event.what.value for event in life(reader.history(), state)] == [
        "deployed",
        "stood_by",
        "started",
        "deployed",
        "stood_by",
        "handed_over",
    ]


@pytest.mark.parametrize("seed", range(8))
def test_of_a_log_full_of_faults_every_change_of_holder_is_told_once(seed: int) -> None:
    simulation = Simulation(seed)
    with shared_readings(), virtual_time(simulation.world):
        simulation.run()
    assert isinstance(simulation.world.store, MemoryStore)
    records = [Record.read(data, seq) for seq, data in sorted(simulation.world.store.stored.items())]
    state = fold(records)
    illegal = {each.seq for each in state.illegal}
    legal = [each for each in records if each.seq not in illegal]
    changes = [event for event in life(legal, state) if event.what in CHANGES]
    taken = [each for each in legal if each.kind == Kind.ACQUIRED]
    holders = [each["incarnation"] for each in taken]
    assert [event.seq for event in changes] == [each.seq for each in taken]
    assert [event.incarnation for event in changes] == holders
    assert [event.before for event in changes] == ["", *holders[:-1]]
    for cut in range(0, len(legal), 10):
        found = [event.seq for event in life(legal[cut:], state) if event.what in CHANGES]
        assert found == [each.seq for each in taken if each.seq >= legal[cut].seq]


def test_the_recorded_log() -> None:
    records = [Record.read(line, seq) for seq, line in enumerate(lines("log.jsonl"), 1)]
    state = fold(records)
    illegal = {each.seq for each in state.illegal}
    events = life([each for each in records if each.seq not in illegal], state)
    assert [(event.seq, event.what.value, event.version) for event in events] == [
        (1, "deployed", "1.0"),
        (3, "stood_by", "1.0"),
        (6, "started", "1.0"),
        (7, "deployed", "2.0"),
        (9, "stood_by", "2.0"),
        (13, "handed_over", "2.0"),
        (14, "asked", "1.0"),
        (15, "aborted", "1.0"),
        (16, "asked", "1.0"),
        (18, "aborted", "1.0"),
        (19, "fencing", "2.0"),
        (20, "fenced", "2.0"),
        (21, "retired", "2.0"),
        (24, "rolled_back", "1.0"),
        (25, "deployed_again", "1.0"),
        (27, "failed", "1.0"),
        (28, "deployed", "3.0"),
        (30, "refused", "3.0"),
        (32, "stopped", "1.0"),
        (33, "deployed", "4.0"),
        (35, "stood_by", "4.0"),
        (38, "started", "4.0"),
        (39, "failed", "4.0"),
        (40, "fenced", "4.0"),
        (41, "stopped", "4.0"),
        (42, "deployed", "5.0"),
        (44, "stood_by", "5.0"),
        (47, "started", "5.0"),
        (48, "released", "5.0"),
        (51, "revived", "5.0"),
        (52, "finished", "5.0"),
        (53, "unknown", ""),
        (54, "illegal", ""),
        (55, "deployed", "6.0"),
    ]
    by = {event.seq: event for event in events}
    assert (by[7].reason, by[32].reason, by[40].evidence) == ("deployed by bob", "maintenance", {"person": "ann"})
    assert (by[13].free_seconds, by[24].free_seconds, by[51].free_seconds) == (1.25, 5.0, 3.75)
    assert by[30].reason == "The query totals fails on live data: no such column"
