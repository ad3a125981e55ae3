"""Thousands of interleavings with faults, drawn from seeds: every invariant holds, and every fault came in every state.

make simulate SEEDS=200000                                     # for hours
python -m tests.support.simulation --seed 12345 --trace        # one of them, to be read
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable

import pytest

from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from tests.support.simulation.__main__ import Tally, replay, results
from tests.support.simulation.bounds import BOUND, CANNOT_HAPPEN
from tests.support.simulation.disasters import DISASTERS
from tests.support.simulation.faults import FAULTS, STRIKE_LATER
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.one_seed import FILE, STORES, TOPIC, simulate
from tests.support.simulation.people import ACTS
from tests.support.simulation.protocol_state import STATES
from tests.support.simulation.result import Result
from tests.support.simulation.topic_wire import TopicWorld
from tests.support.simulation.wire import Fault
from tests.support.simulation.world import Actor, World

SEEDS = {FILE: 150, TOPIC: 50}  # one over a topic takes four times as long
ENOUGH = 6000  # for every fault in every state


def tally_of(found: Iterable[Result]) -> Tally:
    tally = Tally(0)
    for result in found:
        assert not result.broken, f"{result.found}\n{replay(result)}"
        tally.add(result)
    assert 0 < tally.longest_recovery <= BOUND
    assert tally.batches > tally.seeds
    return tally


@pytest.mark.parametrize("store", SEEDS)
def test_every_invariant_holds_in_every_seed(store: str) -> None:
    tally_of(simulate(seed, store) for seed in range(SEEDS[store]))  # other processes would load Airflow first


@pytest.mark.system
def test_every_fault_came_in_every_state() -> None:
    tally = tally_of(results(range(ENOUGH), jobs=os.cpu_count() or 1))
    assert tally.unseen == [], "a fault that never came in a state shows nothing"
    assert {(store, fault) for store, _, fault in tally.cells} == {(s, f) for s in STORES for f in STORES[s].faults}
    assert set(tally.disasters) == set(DISASTERS)
    assert set(tally.acts) == {*ACTS, "restart"}


class Writer(Actor):
    """Writes one record."""

    def run(self) -> None:
        with contextlib.suppress(ControlUnavailable):
            self.world.open_log(self).store.create(1, b"{}")


@pytest.mark.parametrize("world", [World(MemoryStore()), TopicWorld(1)], ids=[FILE, TOPIC])
def test_a_fault_of_a_write_counts_when_it_strikes(world: World) -> None:
    for away, struck in ((True, []), (False, ["write lost"])):
        actor = Writer(world)
        actor.step(Fault.LOST)  # up to its write, which the fault has not met yet
        assert actor.struck == []
        world.store_down = away
        actor.step(Fault.LOST)
        assert actor.struck == struck
        world.store_down = False


@pytest.mark.parametrize("store", [FILE, pytest.param(TOPIC, marks=pytest.mark.system)])
def test_a_fault_that_waits_may_wait_in_vain(store: str) -> None:
    waited, struck = Counter[str](), Counter[str]()
    for seed in range(100):  # as many as it takes: which ones do changes with each new fault
        trace: list[str] = []
        result = simulate(seed, store, trace.append)
        waited.update(name for line in trace for name in STRIKE_LATER if f"!! {name} waits" in line)
        struck.update(name for (_, name), count in result.cells.items() for _ in range(count) if name in STRIKE_LATER)
        assert struck <= waited
        if 0 < struck.total() < waited.total():
            return
    pytest.fail(f"no fault of {struck} waited in vain, or none struck")


@pytest.mark.parametrize("store", [FILE, TOPIC])
def test_a_seed_is_always_the_same_run(store: str) -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        simulate(7, store, trace.append)
    # Nonces are random.
    bare = [[re.sub(r'"(nonce|previous)": "[0-9a-f]*"', "", line) for line in trace] for trace in traces]
    assert bare[0] == bare[1]
    assert len(traces[0]) > 20


def test_what_cannot_happen_names_states_and_faults_that_there_are() -> None:
    assert {state for state, _ in CANNOT_HAPPEN} <= set(STATES)
    assert {fault for _, fault in CANNOT_HAPPEN} <= set(FAULTS)
