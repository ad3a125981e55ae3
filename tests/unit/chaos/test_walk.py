from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from typing import Any

from chaos.matrix import cells_of, possible
from chaos.plan import (
    HOLDS,
    STANDS_BY,
    Cell,
    PlannedFault,
    Scenario,
    cells,
)
from chaos.states import DOWN, SUBMITTED
from chaos.walk import Walk
from devstack.places import Pair

PRINT = "from chaos.walk import Walk; walk = Walk(7); print([walk.next() for _ in range(30)])"
AN_HOUR = 24


def plan(seed: int, scenarios: int = AN_HOUR) -> list[Scenario]:
    """Return what a run does that misses nothing."""
    walk = Walk(seed)
    return [walk.next() for _ in range(scenarios)]


def aimed_at(scenarios: Collection[Scenario]) -> set[Cell]:
    return {fault.cell for scenario in scenarios for fault in scenario.faults}


def test_the_same_seed_gives_the_same_plan_in_every_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", PRINT],
            env={**os.environ, "PYTHONHASHSEED": str(n)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for n in (1, 2)
    }
    assert said == {str(plan(7, 30))}


def test_another_seed_gives_another_plan_also_when_its_walk_begins_at_the_same_place() -> None:
    assert plan(1) != plan(2)
    assert plan(1) != plan(5)


def line(fault: PlannedFault) -> dict[str, Any]:
    """Return what the journal says of a fault that has struck whom it should."""
    state = fault.trigger.state
    drivers = [name for name, there in (("holder", HOLDS), ("standby", STANDS_BY)) if state in there]
    if state in (SUBMITTED, DOWN) and not fault.trigger.with_standby:
        drivers.remove("standby")
    return {
        **{"at": 1.0, "what": "fault", "id": "1.1", "kind": fault.kind, "target": fault.target, "state": state},
        **{"drivers": drivers, "seconds": fault.seconds},
    }


def reached_by(faults: Collection[PlannedFault]) -> set[str]:
    """Return the cells of these faults when triggerer and task lived while the folder failed."""
    healed = {"at": 2.0, "what": "healed", "id": "1.1", "users": ["task", "triggerer"]}
    return set(cells_of([*map(line, faults), healed]))


def test_no_cell_is_out_of_reach() -> None:
    faults = [fault for seed in (1, 2, 3, 4) for scenario in plan(seed) for fault in scenario.faults]
    assert set(possible()) - reached_by(faults) == set()


KAFKA = Pair("kafka", "hdfs")


def test_with_the_log_in_kafka_four_hours_walk_through_every_cell_and_through_nothing_of_a_folder() -> None:
    scenarios = [walk.next() for walk in (Walk(seed, pair=KAFKA) for seed in (1, 2, 3, 4)) for _ in range(AN_HOUR)]
    assert set(cells(KAFKA)) - aimed_at(scenarios) == set()
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    assert "control" not in {fault.target for fault in faults}
    assert {fault.kind for fault in faults} == {"kill", "freeze", "clock_jump"}
    assert {fault.kind for fault in faults if fault.target == "storage"} == {"freeze"}
