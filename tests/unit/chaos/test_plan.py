from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chaos.plan import ACTIONS, DRIVERS, EXTRAS, NEXT_IN_ROW, REFUSED, ROWS, Trigger, cells, make_plan
from chaos.states import DOWN, REHEARSING, RUNNING, STATES, SUBMITTED

PRINT = "from chaos.plan import make_plan; print(make_plan(7, 60))"


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
    assert said == {str(make_plan(7, 60))}


def test_another_seed_gives_another_plan() -> None:
    assert make_plan(1, 5) != make_plan(2, 5)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = make_plan(3, 5)
    assert make_plan(3, 60)[: len(short)] == short


def test_one_plan_walks_through_every_cell() -> None:
    planned = {(f.trigger.state, f.target, f.kind) for s in make_plan(1, 60 * 3) for f in s.faults}
    assert {(c.state, c.target, c.kind) for c in cells()} - planned == set()


@pytest.mark.parametrize("seed", range(1, 40))
def test_what_is_no_cell_comes_round_soon(seed: int) -> None:
    planned = {fault.kind for scenario in make_plan(seed, 60)[:20] for fault in scenario.faults}
    assert set(EXTRAS) <= planned


def test_the_first_hours_of_three_seeds_reach_different_cells() -> None:
    hours = [
        {(f.trigger.state, f.target, f.kind) for s in make_plan(seed, 60)[:25] for f in s.faults} for seed in (1, 2, 3)
    ]
    assert len(set.union(*hours)) > 2 * max(map(len, hours))


@pytest.mark.parametrize("seed", range(1, 40))
def test_the_faults_of_a_scenario_can_follow_each_other(seed: int) -> None:
    order = list(STATES)
    for scenario in make_plan(seed, 30):
        assert scenario.action in ACTIONS
        assert 1 <= len(scenario.faults) <= 4
        states = [fault.trigger.state for fault in scenario.faults]
        assert states == sorted(states, key=order.index)
        deadly = [f for f in scenario.faults if f.target in (*DRIVERS, "worker") and f.kind in ("kill", "freeze")]
        if DOWN in states:
            assert any((f.trigger.state, f.target, f.kind) == (RUNNING, "holder", "kill") for f in deadly)
        else:
            assert len({f.trigger.state for f in deadly}) <= 1
            assert all(s in (states[-1], deadly[0].trigger.state) for f in deadly for s in [f.trigger.state])


def test_a_trigger_is_a_sentence() -> None:
    assert Trigger("ready", 0.5).sentence == "0.50 s after the stream is ready"
    assert Trigger("released", 0.0, "holder", 1).sentence == "as soon as the holder has made append 1 of this scenario"


@pytest.mark.parametrize("seed", range(1, 40))
def test_a_release_that_is_refused_is_not_expected_to_become_ready(seed: int) -> None:
    for scenario in make_plan(seed, 30):
        if scenario.action == REFUSED:
            assert {fault.trigger.state for fault in scenario.faults} <= {RUNNING, SUBMITTED, REHEARSING}


@pytest.mark.parametrize("seed", range(1, 20))
def test_each_upgrade_of_a_row_has_faults_of_its_own(seed: int) -> None:
    actions = [scenario.action for scenario in make_plan(seed, 60)]
    for number, action in enumerate(actions):
        if action in ROWS:
            after = actions[number + 1 : number + ROWS[action] + 1]
            assert after[: ROWS[action] - 1] == [NEXT_IN_ROW] * len(after[: ROWS[action] - 1])
            assert after[ROWS[action] - 1 :] != [NEXT_IN_ROW]
