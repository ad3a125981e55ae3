"""The lives that whole logs tell: a real one, and those of simulations full of faults."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.monitoring.life import What, life
from tests.support.control_root import new_log
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
