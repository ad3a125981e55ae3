"""The seeds once more, on a cluster that reserves ids: every invariant holds, and an id is never sent twice."""

from __future__ import annotations

import pytest

from tests.support.simulation.__main__ import replay
from tests.support.simulation.one_seed import FILE, simulate
from tests.support.simulation.world import World


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.system)])
def test_every_invariant_holds_where_ids_are_written_down_before_they_are_sent(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(World, "reserves", True)
    for seed in range(seeds):
        result = simulate(seed, FILE)
        assert not result.broken, f"{result.found}\n{replay(result)}"
