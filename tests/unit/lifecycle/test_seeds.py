"""Thousands of interleavings with faults, drawn from seeds: every invariant holds, and every fault came in every state.

make simulate SEEDS=200000                                     # for hours
python -m tests.support.simulation --seed 12345 --trace        # one of them, to be read
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.simulation.__main__ import Tally, replay
from tests.support.simulation.faults import FAULTS
from tests.support.simulation.invariants import INVARIANTS
from tests.support.simulation.people import ACTS
from tests.support.simulation.protocol_state import STATES
from tests.support.simulation.seeds import BOUND, CANNOT_HAPPEN, simulate

SEEDS = 2000
# Several tests, so that processes share them.
PARTS = 4
DOC = Path(__file__).parents[3] / "docs" / "reliability.md"


@pytest.mark.parametrize("part", range(PARTS))
def test_every_invariant_holds_in_every_seed(part: int) -> None:
    tally = Tally(part * SEEDS // PARTS)
    for seed in range(tally.first, tally.first + SEEDS // PARTS):
        result = simulate(seed)
        assert not result.broken, f"{result.found}\n{replay(seed)}"
        tally.add(result)
    report = tally.report()
    assert all(report["faults"].values()), "a fault that never came shows nothing"
    assert set(tally.acts) == set(ACTS)
    assert 0 < tally.longest_recovery <= BOUND
    assert tally.batches > SEEDS
    # A quarter of the seeds has nearly all of the cells; the whole has all.
    assert len(tally.empty) < len(FAULTS) * len(STATES) / 10, tally.empty


def test_a_seed_is_always_the_same_run() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        simulate(7, trace.append)
    # Nonces are random, and `submitted` has the time of this machine.
    bare = [[re.sub(r'"(nonce|previous|at)": "?[0-9a-f.]+"?', "", line) for line in trace] for trace in traces]
    assert bare[0] == bare[1]
    assert len(traces[0]) > 20


def test_what_cannot_happen_names_states_and_faults_that_there_are() -> None:
    assert {state for state, _ in CANNOT_HAPPEN} <= set(STATES)
    assert {fault for _, fault in CANNOT_HAPPEN} <= set(FAULTS)


@pytest.mark.skipif(not DOC.exists(), reason="docs/reliability.md comes with the chaos of the real stack")
def test_the_documentation_has_the_invariants() -> None:
    text = DOC.read_text()
    assert all(f"| `{name}` | {says}" in text for name, says in INVARIANTS.items()), os.linesep.join(INVARIANTS)
