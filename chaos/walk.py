"""The plan of a run, drawn from a seed while the run goes on. Pure: what was missed and the seed decide everything."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from chaos.plan import (
    ABORT,
    BAD,
    CHECKPOINT,
    CHECKPOINT_EXTRAS,
    CLEARED_TASK,
    DRIVERS,
    FENCE,
    FILES,
    FOLDER_EXTRAS,
    FOUR_IN_A_ROW,
    GOOD,
    NEXT_IN_ROW,
    NOTHING,
    PARTS,
    REDEPLOY,
    REFUSED,
    RESTART,
    ROLL_BACK,
    ROWS,
    STOP,
    TASKS,
    TWO_AT_ONCE,
    Cell,
    PlannedFault,
    Scenario,
    Trigger,
    cells,
    extras,
    log_target,
)
from chaos.states import ACQUIRED, DOWN, READY, REHEARSING, RELEASED, REQUESTED, RUNNING, STATES, SUBMITTED
from devstack.places import Pair

FREEZE_SECONDS = (5.0, 8.0, 12.0, 20.0, 35.0, 60.0)
# Shorter than the lease: whoever is frozen so goes on, and the upgrade with it.
SURVIVED_SECONDS = (5.0, 8.0, 12.0)
KILLED_SECONDS = (1.0, 3.0, 8.0, 15.0)
# Long enough to meet a task, too: the watch of a run looks every 20 s.
STORE_SECONDS = (20.0, 25.0, 35.0, 50.0)
TORN_SECONDS = (5.0, 12.0, 20.0)
CHECKPOINT_SECONDS = (5.0, 15.0, 30.0)
JUMP_SECONDS = (-3600.0, -60.0, 45.0, 3600.0)
# The clock of a driver's JVM is not moved with that of its Python, and its timer would halt the driver whenever the two
# are further apart than the lease is long: a kill, and no jump. So it survives these, and the last one ends its lease.
DRIVER_JUMP_SECONDS = (-5.0, 5.0, 3600.0)
# How far a scenario looks along the walk for cells that go with its first one, and how many it has at most.
LOOK_AHEAD = 90
MOST = (3, 4, 4)
# Cells that an hour reaches: so far apart begin the walks of two successive seeds. Four of them are all.
CELLS_OF_AN_HOUR = 46
# A cell that is missed again and again may be out of reach: after so many tries the walk goes on.
TRIES = 3
# Every so manieth scenario has no fault, and so about every fifth upgrade.
CLEAN_EVERY = 6
CLEAN_ACTIONS = (GOOD, GOOD, BAD, REFUSED, ROLL_BACK, TWO_AT_ONCE, CLEARED_TASK)
# What the form may ask for in place of an action, and meets the same faults; and where there are none.
BY_FORM = {NOTHING: (STOP, RESTART, FENCE), GOOD: (REDEPLOY,), CLEARED_TASK: (ABORT,)}
CLEAN_BY_FORM = {GOOD: (REDEPLOY, STOP, RESTART, FENCE), CLEARED_TASK: (ABORT,)}

_DEADLY = (*DRIVERS, "worker")
_ORDER = {state: number for number, state in enumerate(STATES)}
# The append that takes the stream to a state, or is made in it: whose, and which of this scenario.
_APPENDS = {READY: ("standby", 1), REQUESTED: ("standby", 2), RELEASED: ("holder", 1), ACQUIRED: ("standby", 3)}


class Walk:
    """Walks through all cells in one fixed order, each seed from another place on, and makes scenarios of them.

    :param seed: all draws are from it.
    :param first: cells that come before all others.
    :param pair: where the stream keeps its control log and its files.
    """

    def __init__(self, seed: int, first: Sequence[Cell] = (), pair: Pair = FILES) -> None:
        order = cells(pair)
        random.Random("cells").shuffle(order)
        start = (seed - 1) * CELLS_OF_AN_HOUR % len(order)
        self._order = order[start:] + order[:start]
        self._seed = seed
        self._log, self._extra_kinds = log_target(pair), extras(pair)
        self._left = [*first, *(cell for cell in self._order if cell not in first)]
        self._tried: Counter[Cell] = Counter()
        self._chosen: list[Cell] = []
        # Those that have not had their turn: all of them come round before one comes again.
        self._extras: list[str] = []
        self._number = self._row = 0
        self._extra_is_due = False

    def next(self, missed: Collection[Cell] = ()) -> Scenario:
        """Return the next scenario; there is always one.

        :param missed: the cells of the last one that were not reached. They come again, before all others.
        """
        self._left = [c for c in self._chosen if c in missed and self._tried[c] < TRIES] + self._left
        self._chosen = []
        self._number += 1
        draw = random.Random(f"plan {self._seed} {self._number}")
        if self._row == 0 and self._number % CLEAN_EVERY == 0:
            return self._scenario(self._or_by_form(draw.choice(CLEAN_ACTIONS), CLEAN_BY_FORM), (), draw)
        self._choose(draw)
        action = NEXT_IN_ROW if self._row else _action_for(self._chosen, draw)
        self._row = ROWS.get(action, self._row) - 1 if self._row or action in ROWS else 0
        last = max(_ORDER[cell.state] for cell in self._chosen)
        faults = [self._planned(cell, draw, survived=_ORDER[cell.state] < last) for cell in self._chosen]
        return self._scenario(self._or_by_form(action, BY_FORM), [*faults, *self._others(draw)], draw)

    def _or_by_form(self, action: str, verbs: Mapping[str, Sequence[str]]) -> str:
        # By a draw of its own: the faults of a seed do not depend on it.
        return random.Random(f"form {self._seed} {self._number}").choice((action, action, *verbs.get(action, ())))

    def _scenario(self, action: str, faults: Iterable[PlannedFault], draw: random.Random) -> Scenario:
        clears = draw.choice(TASKS) if action == CLEARED_TASK else ""
        meddles = action in (CLEARED_TASK, ABORT)
        return Scenario(
            self._number,
            action,
            tuple(sorted(faults, key=self._place)),
            clears,
            draw.uniform(5, 45) if meddles else 0.0,
        )

    def _choose(self, draw: random.Random) -> None:
        """Take the first cell of the walk, and some of the next that can be reached in the same scenario."""
        if len(self._left) < LOOK_AHEAD:
            self._left += [cell for cell in self._order if cell not in self._left]
        # Between two upgrades of a row there is hardly a moment in which it only runs, or is down.
        fits = [cell for cell in self._left if not self._row or cell.state not in (RUNNING, DOWN)]
        most = draw.choice(MOST)
        for cell in fits[:LOOK_AHEAD]:
            if len(self._chosen) < most and all(_go_together(cell, other, self._log) for other in self._chosen):
                self._chosen.append(cell)
                self._left.remove(cell)
                self._tried[cell] += 1

    def _others(self, draw: random.Random) -> list[PlannedFault]:
        """Return the faults that are no cells of the walk: the kill that takes it down, or else the next of `extras`.

        What comes before a kill of the holder would only take a dead driver, or keep it from being found dead.
        """
        if any(cell.state == DOWN for cell in self._chosen):
            killed = any(cell.target in DRIVERS and cell.state == RUNNING for cell in self._chosen)
            return [] if killed else [PlannedFault(Trigger(RUNNING, 0.5), "holder", "kill", 0.0)]
        self._extra_is_due = not self._extra_is_due
        return [self._extra(draw)] if self._extra_is_due else []

    def _extra(self, draw: random.Random) -> PlannedFault:
        # The last state, as the drivers may not survive it.
        state = max((cell.state for cell in self._chosen), key=lambda each: _ORDER[each])
        if not self._extras:
            self._extras = draw.sample(self._extra_kinds, len(self._extra_kinds))
        fails = any(cell.target == "control" for cell in self._chosen)
        kinds = [each for each in self._extras if not (fails and each in FOLDER_EXTRAS)]
        kind = kinds[0] if kinds else "clock_jump"
        if kind in self._extras:
            self._extras.remove(kind)
        if kind in FOLDER_EXTRAS:
            return PlannedFault(_trigger(state, draw, folder=True), "control", kind, draw.choice(STORE_SECONDS))
        if kind in CHECKPOINT_EXTRAS:
            return PlannedFault(_trigger(state, draw), CHECKPOINT, kind, draw.choice(CHECKPOINT_SECONDS))
        standby = state in (REHEARSING, READY)
        if kind == "torn_heartbeat":
            target = "standby" if standby else "holder"
            return PlannedFault(_trigger(state, draw), target, kind, draw.choice(TORN_SECONDS))
        target = draw.choice(("standby_python" if standby else "holder_python", "triggerer", "task"))
        jump = draw.choice(DRIVER_JUMP_SECONDS if target in DRIVERS else JUMP_SECONDS)
        return PlannedFault(_trigger(state, draw), target, kind, draw.choice((10.0, 30.0)), jump)

    def _place(self, fault: PlannedFault) -> tuple[int, bool]:
        # What holds `released` open comes before what happens in it.
        return _ORDER[fault.trigger.state], fault.target != self._log

    def _planned(self, cell: Cell, draw: random.Random, *, survived: bool) -> PlannedFault:
        if cell.target == "control":
            trigger = _trigger(cell.state, draw, folder=True)
            return PlannedFault(trigger, cell.target, cell.kind, draw.choice(STORE_SECONDS))
        seconds = 0.0
        if cell.kind == "freeze":
            deadly = cell.target in (*_DEADLY, self._log)
            seconds = draw.choice(SURVIVED_SECONDS if survived and deadly else FREEZE_SECONDS)
        # Only a part of the stack stays away until it is started again; the end of all others is over at once.
        if cell.kind == "kill" and cell.target in PARTS:
            # With the control log it may be away for as long as a folder.
            long = cell.target == self._log and not survived
            seconds = draw.choice((*KILLED_SECONDS, *STORE_SECONDS) if long else KILLED_SECONDS)
        return PlannedFault(_trigger(cell.state, draw), cell.target, cell.kind, seconds)


def _go_together(one: Cell, other: Cell, log: str) -> bool:
    """Whether the one does not keep the stream from the other's state, and the two do not hide each other.

    :param log: the target whose faults keep the control log from everybody.
    """
    if one.target == other.target:
        return False
    both = (one.target, other.target)
    if one.state == other.state:
        # `released` is over in no time, unless the control log fails in it.
        if set(both) <= set(DRIVERS):
            return one.target.startswith("holder") != other.target.startswith("holder")
        return one.state == DOWN or (one.state == RELEASED and log in both)
    first, then = sorted((one, other), key=lambda cell: _ORDER[cell.state])
    if then.state == DOWN:
        # A stream that loses its holder reaches no other state of an upgrade.
        takes_it_down = first.kind == "kill" and first.target in ("holder", "holder_python")
        harmless = first.target not in (*_DEADLY, log)
        return first.state == RUNNING and (takes_it_down or harmless)
    return first.kind == "freeze" or first.target not in _DEADLY


def _action_for(chosen: Sequence[Cell], draw: random.Random) -> str:
    states = {cell.state for cell in chosen}
    if states <= {RUNNING, DOWN}:
        return draw.choice((NOTHING, NOTHING, NOTHING, GOOD))
    if states & {REQUESTED, RELEASED, ACQUIRED}:
        return draw.choice((*([GOOD] * 5), BAD, ROLL_BACK, TWO_AT_ONCE, FOUR_IN_A_ROW, CLEARED_TASK))
    if READY in states:
        return draw.choice((GOOD, GOOD, GOOD, BAD, ROLL_BACK, TWO_AT_ONCE, CLEARED_TASK))
    return draw.choice((GOOD, GOOD, REFUSED, REFUSED, ROLL_BACK, TWO_AT_ONCE, CLEARED_TASK))


def _trigger(state: str, draw: random.Random, *, folder: bool = False) -> Trigger:
    if folder and state in (SUBMITTED, DOWN):
        return Trigger(state, with_standby=True)  # the folder fails for it, too
    event = _APPENDS.get(state)
    if event and draw.random() < 0.5:
        return Trigger(state, 0.0, *event)
    # In a state that lasts less than a second a fault that waits comes too late.
    longest = {REQUESTED: 0.0, RELEASED: 0.0, ACQUIRED: 0.0, REHEARSING: 1.0}.get(state, 3.0)
    return Trigger(state, round(draw.random() * longest, 2))
