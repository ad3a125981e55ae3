"""The plan of a run: scenarios drawn from a seed. Pure: the same seed gives the same plan on every machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.states import ACQUIRED, DOWN, READY, REHEARSING, RELEASED, REQUESTED, RUNNING, STATES, SUBMITTED

# What an upgrade does to the stream, in the words of the journal.
GOOD, REFUSED, BAD, TWO_AT_ONCE, FOUR_IN_A_ROW, ROLL_BACK, CLEARED_TASK, NOTHING = (
    "good",
    "refused",
    "bad",
    "two_at_once",
    "four_in_a_row",
    "roll_back",
    "cleared_task",
    "nothing",
)
# The person waits for the next of the upgrades that were asked for together, while other faults are at work.
NEXT_IN_ROW = "next_in_row"
ROWS = {TWO_AT_ONCE: 2, FOUR_IN_A_ROW: 4}
ACTIONS = (GOOD, REFUSED, BAD, TWO_AT_ONCE, FOUR_IN_A_ROW, ROLL_BACK, CLEARED_TASK, NOTHING, NEXT_IN_ROW)

DRIVERS = ("holder", "standby", "holder_python", "standby_python")
PARTS = ("worker", "master", "broker", "scheduler", "triggerer")
PROCESSES = (*DRIVERS, "executor", *PARTS, "task")
# In which states there is such a driver. The other processes are there in all of them.
HOLDS = (RUNNING, SUBMITTED, REHEARSING, READY, REQUESTED, RELEASED, ACQUIRED)
STANDS_BY = (SUBMITTED, REHEARSING, READY, REQUESTED, RELEASED, ACQUIRED, DOWN)

_ORDER = {state: number for number, state in enumerate(STATES)}
# The append that takes the stream to a state, or is made in it: whose, and which of this scenario.
_APPENDS = {READY: ("standby", 1), REQUESTED: ("standby", 2), RELEASED: ("holder", 1), ACQUIRED: ("standby", 3)}

FREEZE_SECONDS = (5.0, 8.0, 12.0, 20.0, 35.0, 60.0)
KILLED_SECONDS = (1.0, 3.0, 8.0, 15.0)
STORE_SECONDS = (5.0, 10.0, 20.0, 35.0, 50.0)
JUMP_SECONDS = (-3600.0, -60.0, 45.0, 3600.0)
FOLDER_EXTRAS = ("away", "read_only")
# The faults that are no cells of the walk.
EXTRAS = ("torn_heartbeat", "clock_jump", *FOLDER_EXTRAS)
# How far a scenario looks along the walk for cells that go with its first one.
LOOK_AHEAD = 40
# Cells that an hour reaches: so far apart begin the walks of two successive seeds.
CELLS_OF_AN_HOUR = 60
# The shortest scenario: the plan must not end before the minutes do.
SCENARIO_SECONDS = 20.0


@dataclass(frozen=True)
class Cell:
    """One place of the matrix: a fault that meets a process in a state of the protocol."""

    state: str
    target: str
    kind: str


@dataclass(frozen=True)
class Trigger:
    """The event of the protocol at which a fault happens.

    :param state: the state of the protocol that it happens in.
    :param after: seconds from the moment that the state is reached; it must last so long.
    :param author: whose append it waits for: holder (who held when the scenario began) or standby (a driver that was
        submitted since); empty: it waits for the state alone.
    :param append: the number of that append in this scenario, from 1.
    """

    state: str
    after: float = 0.0
    author: str = ""
    append: int = 0

    @property
    def sentence(self) -> str:
        """The event, for a person."""
        wait = f"{self.after:.2f} s after" if self.after else "as soon as"
        if self.author:
            return f"{wait} the {self.author} has made append {self.append} of this scenario"
        return f"{wait} the stream is {self.state}"


@dataclass(frozen=True)
class PlannedFault:
    """One fault of a scenario.

    :param kind: what happens, and `target` to whom.
    :param seconds: how long it lasts: until a frozen process goes on, the control folder is well, a killed part is
        started again. Of a clock that is jumped: for how long.
    :param jump: seconds that a clock is moved; 0 for other faults.
    """

    trigger: Trigger
    target: str
    kind: str
    seconds: float
    jump: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """What is done to the stream, and the faults that meet it on the way, in the order of the protocol."""

    number: int
    action: str
    faults: tuple[PlannedFault, ...]


def cells() -> list[Cell]:
    """Return the cells that can exist and are planned: state x process x {kill, freeze}, and state x control folder."""
    found = [
        Cell(state, target, kind)
        for state in STATES
        for target in PROCESSES
        for kind in ("kill", "freeze")
        if _exists(state, target)
    ]
    found += [Cell(state, "control", kind) for state in STATES for kind in ("hang", "full")]
    return found


def make_plan(seed: int, minutes: float) -> list[Scenario]:
    """Return the scenarios of a run, more than fit into its minutes.

    The cells are walked through in one fixed order, each seed from another place on, so that the seeds 1, 2 and 3
    together reach more than any of them twice. All else is drawn from the seed.
    """
    order = cells()
    random.Random("cells").shuffle(order)
    start = (seed - 1) * CELLS_OF_AN_HOUR % len(order)
    walk = order[start:] + order[:start]
    draw = random.Random(f"plan {seed}")
    wanted = max(6, int(minutes * 60 / SCENARIO_SECONDS))
    plan: list[Scenario] = []
    extras: list[str] = []
    row = 0
    while len(plan) < wanted:
        if not walk:
            walk = list(order)
        chosen = _compatible(walk, draw)
        action = NEXT_IN_ROW if row else _action_for(chosen, draw)
        row = ROWS.get(action, row) - 1 if row or action in ROWS else 0
        faults = [_planned(cell, draw) for cell in chosen] + _extra(chosen, extras, draw)
        faults.sort(key=lambda fault: _ORDER[fault.trigger.state])
        plan.append(Scenario(len(plan) + 1, action, tuple(faults)))
    return plan


def _exists(state: str, target: str) -> bool:
    if target.startswith("holder"):
        return state in HOLDS
    if target.startswith("standby"):
        return state in STANDS_BY
    return True


def _compatible(walk: list[Cell], draw: random.Random) -> list[Cell]:
    """Take the first cell of the walk, and up to two of the next that can be reached in the same scenario."""
    chosen = [walk.pop(0)]
    most = draw.choice((2, 3, 3))
    for cell in walk[:LOOK_AHEAD]:
        if len(chosen) == most:
            break
        if all(_go_together(cell, other) for other in chosen):
            chosen.append(cell)
            walk.remove(cell)
    return chosen


def _go_together(one: Cell, other: Cell) -> bool:
    """Whether the one does not keep the stream from the other's state, and the two do not hide each other."""
    if one.state == other.state or one.target == other.target:
        return False
    # A stream that loses its holder reaches no other state of this upgrade; it is down, and that is a scenario.
    if DOWN in (one.state, other.state):
        return False
    first = min(one, other, key=lambda cell: _ORDER[cell.state])
    return first.target not in DRIVERS and first.target != "worker"


def _action_for(chosen: Sequence[Cell], draw: random.Random) -> str:
    states = {cell.state for cell in chosen}
    if states <= {RUNNING, DOWN}:
        return draw.choice((NOTHING, NOTHING, NOTHING, GOOD))
    if states & {REQUESTED, RELEASED, ACQUIRED}:
        return draw.choice((*([GOOD] * 5), BAD, ROLL_BACK, TWO_AT_ONCE, FOUR_IN_A_ROW, CLEARED_TASK))
    if READY in states:
        return draw.choice((GOOD, GOOD, GOOD, BAD, ROLL_BACK, TWO_AT_ONCE, CLEARED_TASK))
    return draw.choice((GOOD, GOOD, REFUSED, REFUSED, ROLL_BACK, TWO_AT_ONCE, CLEARED_TASK))


def _planned(cell: Cell, draw: random.Random) -> PlannedFault:
    trigger = _trigger(cell.state, draw)
    if cell.target == "control":
        return PlannedFault(trigger, cell.target, cell.kind, draw.choice(STORE_SECONDS))
    lasts = FREEZE_SECONDS if cell.kind == "freeze" else KILLED_SECONDS
    return PlannedFault(trigger, cell.target, cell.kind, draw.choice(lasts))


def _trigger(state: str, draw: random.Random) -> Trigger:
    event = _APPENDS.get(state)
    if event and draw.random() < 0.5:
        return Trigger(state, 0.0, *event)
    # In a state that lasts less than a second a fault that waits comes too late.
    longest = {REQUESTED: 0.0, RELEASED: 0.0, ACQUIRED: 0.0, REHEARSING: 1.0}.get(state, 3.0)
    return Trigger(state, round(draw.random() * longest, 2))


def _extra(chosen: Sequence[Cell], extras: list[str], draw: random.Random) -> list[PlannedFault]:
    """Faults that are no cells: the next of `EXTRAS` that fits, in every second scenario or so.

    What needs the stream to be down gets the kill that takes it there.

    :param extras: those that have not had their turn; all of them come round before one comes again.
    """
    found: list[PlannedFault] = []
    if any(cell.state == DOWN for cell in chosen):
        found.append(PlannedFault(Trigger(RUNNING, 0.5), "holder", "kill", 0.0))
    if draw.random() < 0.5:
        return found
    state = draw.choice([cell.state for cell in chosen if cell.state != DOWN] or [RUNNING])
    standby = state in (SUBMITTED, REHEARSING, READY)
    if not extras:
        extras += draw.sample(EXTRAS, len(EXTRAS))
    fails = any(cell.target == "control" for cell in chosen)
    kind = next((each for each in extras if not (fails and each in FOLDER_EXTRAS)), "")
    if not kind:
        return found
    extras.remove(kind)
    if kind == "torn_heartbeat":
        # A driver that comes up has none yet.
        target = "standby" if state in (REHEARSING, READY) else "holder"
        found.append(PlannedFault(_trigger(state, draw), target, kind, draw.choice((5.0, 12.0, 20.0))))
    elif kind == "clock_jump":
        target = draw.choice(("standby_python" if standby else "holder_python", "scheduler", "triggerer"))
        seconds, jump = draw.choice((10.0, 30.0)), draw.choice(JUMP_SECONDS)
        found.append(PlannedFault(_trigger(state, draw), target, kind, seconds, jump))
    else:
        found.append(PlannedFault(_trigger(state, draw), "control", kind, draw.choice(STORE_SECONDS)))
    return found
