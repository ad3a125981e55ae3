"""The model check: whatever comes between two steps, the rules hold, and some driver can run the stream again.

Hypothesis chooses who takes the next step, what is lost on the way, who is killed, frozen or cut off there. The code
that it drives is the product's: ControlLog, the rules, the agent in the drivers with its background work, the plans of
the operators in Airflow's tasks and in the runs of the watch, `recovery_step` in a watch that knows at once who lives.

    MODEL_CHECK_EXAMPLES=100000 pytest tests/unit/lifecycle/test_every_interleaving.py     # for hours

Without it the examples are the same ones every time: a change is judged by itself, not by luck.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.support.simulation.adopting import StreamsAdopting
from tests.support.simulation.machine import Streams
from tests.support.simulation.machine_on_topic import StreamsOnTopic
from tests.support.simulation.machine_variants import StreamsDown, StreamsOnFiles, StreamsPruned, StreamsPutBack

GIVEN = os.environ.get("MODEL_CHECK_EXAMPLES")
EXAMPLES: list[Any] = [int(GIVEN)] if GIVEN else [30, pytest.param(200, marks=pytest.mark.system)]


@pytest.fixture(autouse=True, scope="module")
def silent() -> Iterator[None]:
    """The agents log every trouble that they are put into; to keep all of it would take longer than the check."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(
    ("machine", "share"),
    [
        *(
            (Streams, 1),
            (StreamsOnFiles, 5),
            (StreamsPruned, 5),
            (StreamsDown, 5),
            (StreamsPutBack, 5),
            (StreamsAdopting, 2),
        ),
        # Slower: all clients of a topic read all of its messages.
        pytest.param(StreamsOnTopic, 5, marks=pytest.mark.system),
    ],
)
def test_the_rules_hold_and_the_stream_can_run_again(
    machine: type[RuleBasedStateMachine], share: int, examples: int
) -> None:
    enough = settings(
        max_examples=examples // share,
        stateful_step_count=40,
        deadline=None,
        derandomize=GIVEN is None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=enough)
