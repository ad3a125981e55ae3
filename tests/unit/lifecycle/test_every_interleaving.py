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
from unittest import TestCase

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.simulation.machine import Streams
from tests.support.simulation.machine_variants import StreamsDown, StreamsOnFiles, StreamsPruned, StreamsPutBack


@pytest.fixture(autouse=True, scope="module")
def silent() -> Iterator[None]:
    """The agents log every trouble that they are put into; to keep all of it would take longer than the check."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def checked(machine: type[RuleBasedStateMachine], examples: int) -> type[TestCase]:
    """Return the machine as a test with so many examples."""
    machine.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        derandomize="MODEL_CHECK_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    return machine.TestCase


EXAMPLES = int(os.environ.get("MODEL_CHECK_EXAMPLES", "200"))
TestEveryInterleaving = checked(Streams, EXAMPLES)
TestEveryInterleavingOnFiles = checked(StreamsOnFiles, EXAMPLES // 5)
TestEveryInterleavingPruned = checked(StreamsPruned, EXAMPLES // 5)
TestEveryInterleavingDown = checked(StreamsDown, EXAMPLES // 5)
TestEveryInterleavingPutBack = checked(StreamsPutBack, EXAMPLES // 5)
