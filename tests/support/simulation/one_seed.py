"""Run one seed over one of the stores."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from airflow_stream_provider.lifecycle.errors import ControlLogReplaced
from tests.support.simulation.invariants import Broken
from tests.support.simulation.memo import shared_readings
from tests.support.simulation.result import Result
from tests.support.simulation.seeds import Simulation
from tests.support.simulation.topic_seeds import TopicSimulation
from tests.support.simulation.topic_wire import virtual_time

FILE, TOPIC, BOTH = "file", "topic", "both"
STORES: dict[str, type[Simulation]] = {FILE: Simulation, TOPIC: TopicSimulation}


def store_of(seed: int, stores: str) -> str:
    """Return the store that a seed runs over: the one that is asked for, or of both one after the other."""
    return list(STORES)[seed % 2] if stores == BOTH else stores


def simulate(seed: int, store: str = FILE, trace: Callable[[str], None] | None = None) -> Result:
    """Run one seed and return what came of it; a broken invariant is in the result by its name."""
    logging.disable(logging.CRITICAL)
    simulation = STORES[store](seed, trace)
    simulation.result.store = store
    try:
        with ExitStack() as within:
            within.enter_context(shared_readings())
            within.enter_context(virtual_time(simulation.world))
            return simulation.run()
    except Broken as broken:
        simulation.result.broken, simulation.result.found = broken.name, str(broken)
    except ControlLogReplaced as error:  # in a process of Airflow; nobody puts a log back here
        simulation.result.broken, simulation.result.found = "no-surprise", str(error)
    finally:
        for actor in simulation.world.living():
            actor.crash()
        logging.disable(logging.NOTSET)
    return simulation.result


def simulate_one(stores: str, seed: int) -> Result:
    """Run one of many seeds over the store that is its turn."""
    return simulate(seed, store_of(seed, stores))
