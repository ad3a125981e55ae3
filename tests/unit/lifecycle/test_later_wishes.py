"""What somebody wishes in the middle of an upgrade, whatever its phase: the later wish counts, and the task of the
earlier one says so, once; and Airflow may die in any of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from airflow_stream_provider.planning.steps import Done, GiveUp
from tests.support.simulation.airflow import Task, roll_back, stop
from tests.support.simulation.memo import shared_readings
from tests.support.simulation.phases import FIRST, LATER, NEW, PHASES, SECOND, Upgrade
from tests.support.simulation.topic_wire import virtual_time
from tests.support.simulation.watching import Revive

# By the time that the release is wished to hold, it is no standby any more that a later one replaces.
EARLY = ("submitted", "rehearsing", "ready")
BY_SOMEBODY_ELSE = {
    "an edit of the YAML": "orders__upgrade",
    "a second upgrade": "orders__upgrade",
    "a stop": "orders__stop",
    "a roll-back": "orders__back",
}
ACTS = (*BY_SOMEBODY_ELSE, "a revival", "the end of Airflow")


def holds_at_last(act: str, phase: str) -> tuple[str, str]:
    """Return the release that holds then, and the one that stands by to be handed over to."""
    early = phase in EARLY
    return {
        "an edit of the YAML": (SECOND if early else NEW, LATER),
        "a second upgrade": (LATER, ""),
        "a stop": ("", ""),
        # Of what holds; or of an upgrade that does not yet.
        "a roll-back": (FIRST if early else SECOND, ""),
        "a revival": (NEW, ""),
        "the end of Airflow": (SECOND, NEW) if early else (NEW, ""),
    }[act]


@pytest.fixture
def sim() -> Iterator[Upgrade]:
    logging.disable(logging.CRITICAL)
    found = Upgrade()
    with ExitStack() as within:
        within.enter_context(shared_readings())
        within.enter_context(virtual_time(found.world))
        yield found
        for actor in found.world.living():
            actor.crash()
    logging.disable(logging.NOTSET)


def befall(sim: Upgrade, act: str) -> None:
    if act == "an edit of the YAML":
        sim.upgrade(LATER, hands_over=False)
    elif act == "a second upgrade":
        sim.upgrade(LATER)
    elif act == "a stop":
        sim.run_of("stop", ("stop", stop()))
    elif act == "a roll-back":
        sim.run_of("back", ("roll_back", roll_back()))
    elif act == "a revival":
        Revive(sim.world, "by-hand")
    else:
        sim.people.runs.clear()
        for actor in sim.world.actors:
            if isinstance(actor, Task):
                actor.crash()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("act", ACTS)
def test_the_later_wish_counts_and_the_earlier_task_says_so(sim: Upgrade, act: str, phase: str) -> None:
    sim.to(phase)
    earlier = sim.people.tasks[-1].identity.run_id
    befall(sim, act)
    sim.reach(lambda: sim.idle and not any(isinstance(each, Task) and not each.over for each in sim.world.actors))

    state = sim.oracle.state
    held, candidate = state.holding_deployment, state.candidate
    new = None if candidate is None else state.family(candidate.family)[-1]
    stands_by = "" if new is None else new.release.version
    assert ("" if held is None else held.release.version, stands_by) == holds_at_last(act, phase)
    assert candidate is None or any(i.deployment == state.family(candidate.family)[-1].id for i in state.standbys())

    last = [task for task in sim.tasks_of(earlier) if task.ended is not None or act == "the end of Airflow"][-1]
    if not isinstance(last.ended, GiveUp):  # it had ended before; cleared, it looks again
        last = last.again()
        sim.reach(lambda: last.over)
    by = BY_SOMEBODY_ELSE.get(act)
    if by is None or (act == "an edit of the YAML" and phase not in EARLY):
        assert isinstance(last.ended, Done)
    else:
        assert isinstance(last.ended, GiveUp)
        theirs = [each for each in state.wishes.values() if each.by.startswith(f"airflow:{by}/")]
        told = [each for each in theirs if f"was replaced by record {each.seq}, by {each.by}" in str(last.ended.error)]
        assert len(told) == 1
        assert not told[0].by.startswith(f"airflow:{by}/{earlier}/")


@pytest.mark.parametrize("phase", ["requested", "answered"])
@pytest.mark.parametrize("act", ["a stop", "a roll-back"])
def test_a_request_is_aborted_when_its_wish_is_replaced(sim: Upgrade, act: str, phase: str) -> None:
    sim.to(phase)
    befall(sim, act)
    sim.reach(lambda: sim.idle and sim.oracle.state.open_request is None)
    assert not sim.oracle.state.has_run(sim.new)


def test_a_release_that_never_comes_up_does_not_keep_the_watch_from_a_dead_holder(sim: Upgrade) -> None:
    sim.to("submitted")
    state, new = sim.oracle.state, list(sim.world.drivers.values())[-1]
    befall(sim, "the end of Airflow")
    new.frozen = True
    sim.go(sim.world.now + 60.0)
    assert state.holder is not None
    sim.world.drivers[state.holder].kill()
    sim.reach(lambda: sim.holds(SECOND) and sim.commits and sim.oracle.state.holder != state.holder)


def test_the_watch_goes_on_without_the_task_when_the_release_that_is_to_hold_has_died(sim: Upgrade) -> None:
    sim.to("wished")
    befall(sim, "the end of Airflow")
    dead, driver = list(sim.world.drivers.items())[-1]
    driver.kill()
    sim.world.drivers[sim.oracle.state.holder or ""].terminate()
    sim.reach(lambda: sim.holds(NEW) and sim.commits)
    assert all(request.to != dead for request in sim.oracle.state.requests.values())


def test_the_watch_finds_without_the_task_that_what_comes_up_beside_the_holder_has_died(sim: Upgrade) -> None:
    sim.to("submitted")
    befall(sim, "the end of Airflow")
    list(sim.world.drivers.values())[-1].kill()
    sim.reach(lambda: sim.idle and bool(sim.oracle.state.family(sim.new)[-1].ended))
    assert sim.holds(SECOND)
