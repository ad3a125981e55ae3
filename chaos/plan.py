"""What a plan is made of: cells of the matrix, triggers, faults and scenarios. `chaos.walk` draws them from a seed."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.states import ACQUIRED, DOWN, READY, REHEARSING, RELEASED, REQUESTED, RUNNING, STATES, SUBMITTED
from devstack.places import FILE, HDFS, KAFKA, Pair

# What an upgrade does to the stream, in the words of the journal.
GOOD, REFUSED, BAD, TWO_AT_ONCE, FOUR_IN_A_ROW, CLEARED_TASK, NOTHING = (
    "good",
    "refused",
    "bad",
    "two_at_once",
    "four_in_a_row",
    "cleared_task",
    "nothing",
)
# What a person asks by NAME__operate. What is stopped is started, once that run is over; ABORT calls an upgrade off.
STOP, START, RESTART, REDEPLOY, ROLL_BACK, ABORT, FENCE = (
    "stop",
    "start",
    "restart",
    "redeploy",
    "roll-back",
    "abort",
    "fence",
)
# While a run of these lasts nobody may hold, as was asked for.
TAKE_DOWN = (STOP, START, RESTART, FENCE)
# The person waits for the next of the upgrades that were asked for together, while other faults are at work.
NEXT_IN_ROW = "next_in_row"
ROWS = {FOUR_IN_A_ROW: 4}
# The tasks of an upgrade that a person clears.
TASKS = ("check", "submit", "hand_over", "soak")

DRIVERS = ("holder", "standby", "holder_python", "standby_python")
PARTS = ("worker", "master", "broker", "scheduler", "triggerer")
PROCESSES = (*DRIVERS, "executor", *PARTS, "task")
CHECKPOINT = "checkpoint"
# The processes that are the storage; the disk is none. Who kills them loses what they have.
STORAGE = "storage"
# In which states there is such a driver. The other processes are there in all of them.
HOLDS = (RUNNING, SUBMITTED, REHEARSING, READY, REQUESTED, RELEASED, ACQUIRED)
STANDS_BY = (SUBMITTED, REHEARSING, READY, REQUESTED, RELEASED, ACQUIRED, DOWN)

FOLDER_EXTRAS = ("away", "read_only")
CHECKPOINT_EXTRAS = ("checkpoint_away", "checkpoint_older")
# The faults that are no cells of the walk.
EXTRAS = ("torn_heartbeat", "clock_jump", *FOLDER_EXTRAS, *CHECKPOINT_EXTRAS)
FILES = Pair()


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
    :param with_standby: it waits, too, until a driver beside the holder lives and has a name.
    """

    state: str
    after: float = 0.0
    author: str = ""
    append: int = 0
    with_standby: bool = False

    @property
    def sentence(self) -> str:
        """The event, for a person."""
        wait = f"{self.after:.2f} s after" if self.after else "as soon as"
        if self.author:
            return f"{wait} the {self.author} has made append {self.append} of this scenario"
        beside = " and its standby has a name" if self.with_standby else ""
        return f"{wait} the stream is {self.state}{beside}"


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

    @property
    def cell(self) -> Cell:
        """The place of the matrix that it aims at; of some faults there is none."""
        return Cell(self.trigger.state, self.target, self.kind)


@dataclass(frozen=True)
class Scenario:
    """What is done to the stream, and the faults that meet it on the way, in the order of the protocol.

    :param clears: the task that a person clears; empty: none.
    :param meddles_after: after how many seconds, or after how many the upgrade is called off; 0: neither.
    """

    number: int
    action: str
    faults: tuple[PlannedFault, ...]
    clears: str = ""
    meddles_after: float = 0.0


def log_target(pair: Pair) -> str:
    """Return the target whose faults keep the control log from everybody: the control folder, or Kafka's broker."""
    return "broker" if pair.control == KAFKA else "control"


def extras(pair: Pair) -> tuple[str, ...]:
    """Return the faults that are no cells of the walk.

    A topic is never torn, read-only or moved away; checkpoints are moved away in a folder of this machine only.
    """
    left_out = {
        *(("torn_heartbeat", *FOLDER_EXTRAS) if pair.control != FILE else ()),
        *(CHECKPOINT_EXTRAS if pair.storage != FILE else ()),
    }
    return tuple(each for each in EXTRAS if each not in left_out)


def cells(pair: Pair = FILES) -> list[Cell]:
    """Return the cells that can exist and are planned.

    These are state x process x {kill, freeze}, and state x control folder, or state x storage x freeze, where there is
    one. A control log in Kafka hangs or is away with the broker.
    """
    found = [
        Cell(state, target, kind)
        for state in STATES
        for target in PROCESSES
        for kind in ("kill", "freeze")
        if _exists(state, target)
    ]
    if pair.control == FILE:
        found += [Cell(state, "control", kind) for state in STATES for kind in ("hang", "full")]
    if pair.storage == HDFS:
        found += [Cell(state, STORAGE, "freeze") for state in STATES]
    return found


def _exists(state: str, target: str) -> bool:
    if target.startswith("holder"):
        return state in HOLDS
    if target.startswith("standby"):
        return state in STANDS_BY
    return True
