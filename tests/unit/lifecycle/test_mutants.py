"""The simulation, and the model check, find a product that breaks the protocol: each of these has one fault."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_stream_provider.control.log import ControlLog
from tests.support.simulation import mutants_of_drivers, mutants_of_log, mutants_of_topic, mutants_of_watch
from tests.support.simulation.invariants import INVARIANTS
from tests.support.simulation.machine_variants import StreamsPutBack
from tests.support.simulation.one_seed import TOPIC, simulate

MUTANTS = [*mutants_of_drivers.MUTANTS, *mutants_of_log.MUTANTS, *mutants_of_watch.MUTANTS]
# From the first seed on; most are found within ten.
SEEDS = 1000


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("fault", "names"), [pytest.param(*each, id=each[0].__name__) for each in MUTANTS])
def test_the_seeds_find_it(
    fault: Callable[[pytest.MonkeyPatch], None], names: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names <= set(INVARIANTS)
    fault(monkeypatch)
    broken = next((result for result in map(simulate, range(SEEDS)) if result.broken), None)
    assert broken is not None, f"not found in {SEEDS} seeds"
    assert broken.broken in names, broken.found


@pytest.mark.parametrize(
    ("fault", "names"), [pytest.param(*each, id=each[0].__name__) for each in mutants_of_topic.MUTANTS]
)
def test_the_seeds_of_the_topic_find_it(
    fault: Callable[[pytest.MonkeyPatch], None], names: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names <= set(INVARIANTS)
    fault(monkeypatch)
    broken = next((result for seed in range(SEEDS) if (result := simulate(seed, TOPIC)).broken), None)
    assert broken is not None, f"not found in {SEEDS} seeds"
    assert broken.broken in names, broken.found


def test_the_model_check_finds_a_driver_that_goes_on_from_another_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlLog, "_verify", lambda self: None)
    enough = settings(
        max_examples=1500,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match="one-log"):
        run_state_machine_as_test(StreamsPutBack, settings=enough)
