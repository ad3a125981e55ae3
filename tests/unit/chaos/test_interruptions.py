from __future__ import annotations

import pytest

from chaos.batches import Batch
from chaos.holds import holds
from chaos.interruptions import NOTED_WITHIN, SETTLE_SECONDS, explanations, interruptions
from tests.support.chaos_facts import fault, later, timed
from tests.support.story import HANDED_OVER, NEW, OLD, RUNNING, fenced

HEALED = {"at": 130.0, "what": "healed", "id": "f1"}


@pytest.mark.parametrize(
    ("struck", "since", "until", "whose"),
    [
        (fault(110.0), 110.0, 110.0, OLD),
        (fault(110.0, target="standby_python", incarnation=NEW), 110.0, 110.0, NEW),
        (fault(110.0, kind="clock_jump"), 110.0, 110.0, OLD),
        (fault(110.0, kind="freeze", seconds=5.0), 110.0, 130.0, OLD),
        (fault(110.0, target="executor"), 110.0, 110.0, OLD),
        (fault(110.0, target="broker", incarnation=""), 110.0, 130.0 + SETTLE_SECONDS["broker"], ""),
        (fault(110.0, kind="freeze", target="storage", incarnation=""), 110.0, 130.0 + SETTLE_SECONDS["storage"], ""),
        (
            fault(110.0, "checkpoint_away", "checkpoint", incarnation=""),
            110.0,
            130.0 + SETTLE_SECONDS["checkpoint"],
            "",
        ),
        (fault(110.0, kind="freeze", target="worker", seconds=60.0), 110.0, 170.0 + SETTLE_SECONDS["worker"], ""),
    ],
)
def test_when_and_whom_a_fault_strikes(struck: dict[str, object], since: float, until: float, whose: str) -> None:
    [found] = interruptions([struck, HEALED], [])
    assert (found.since, found.until, found.incarnation) == (since - NOTED_WITHIN, until, whose)


@pytest.mark.parametrize(
    "harmless",
    [
        fault(110.0, kind="hang", target="control"),
        fault(110.0, kind="torn_heartbeat"),
        fault(110.0, target="scheduler"),
        fault(110.0, incarnation=""),
        fault(110.0, target="executor", incarnation=""),
        {"at": 110.0, "what": "skipped", "id": "f1", "why": "its event never came"},
    ],
)
def test_what_cuts_no_batch_off(harmless: dict[str, object]) -> None:
    assert interruptions([harmless], []) == []


def test_the_batch_must_have_run_in_the_driver_that_was_struck() -> None:
    held = holds(timed(HANDED_OVER, end=100.0))
    of_new, of_old = Batch(9, {}, 105.0, 110.0), Batch(8, {}, 96.0, 98.0)
    struck = interruptions([fault(107.0), fault(97.0, incarnation=NEW)], held)
    assert explanations(of_new, struck, held) == []
    assert explanations(of_old, struck, held) == []
    right = interruptions([fault(107.0, incarnation=NEW)], held)
    assert explanations(of_new, right, held) == right


def test_a_fence_explains_the_batch_that_the_next_holder_committed() -> None:
    held = holds(later(timed(RUNNING), (fenced(OLD), 112.0)))
    [found] = interruptions([], held)
    assert found.says == f"the hold of {OLD} ended as fenced"
    assert explanations(Batch(3, {}, 105.0, 120.0), [found], held) == [found]
    assert explanations(Batch(4, {}, 113.0, 120.0), [found], held) == []
    assert explanations(Batch(2, {}, 100.0, 105.0), [found], held) == []


def test_a_kill_and_the_fence_that_follows_it_are_one_cut_and_two_kills_are_two() -> None:
    held = holds(later(timed(RUNNING), (fenced(OLD), 112.0)))
    batch = Batch(3, {}, 105.0, 120.0)
    kill, again = fault(110.0), fault(111.0, id="f2")
    assert [each.of_hold for each in explanations(batch, interruptions([kill], held), held)] == [False]
    assert len(explanations(batch, interruptions([kill, again], held), held)) == 2
    assert [each.of_hold for each in explanations(batch, interruptions([], held), held)] == [True]


def test_a_broker_that_has_been_back_for_long_cuts_nothing_off() -> None:
    back = {"at": 86.0, "what": "healed", "id": "f1"}
    struck = interruptions([fault(85.0, target="broker", incarnation=""), back], [])
    assert explanations(Batch(3, {}, 110.0, 115.0), struck, []) == []
    assert explanations(Batch(2, {}, 84.0, 115.0), struck, []) == struck
