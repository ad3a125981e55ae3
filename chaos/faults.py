"""Make the planned faults happen when their events come, end them in time, and journal both."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import psutil

from airflow_stream_provider.control import ControlLog
from chaos.clock import Clocks
from chaos.events import Events
from chaos.journal import Journal
from chaos.plan import CHECKPOINT, CHECKPOINT_EXTRAS, Cell, PlannedFault
from chaos.states import REQUESTED
from chaos.stillness import stops_commits
from chaos.store_faults import Checkpoints, ControlFolder
from chaos.targets import Targets, send
from devstack.stack import LocalStack

POLL_SECONDS = 0.02
# `released`, which comes next, may last 8 ms.
REQUESTED_POLL_SECONDS = 0.005
# A look at all processes takes longer than `released` may last.
PROCESSES_SECONDS, REQUESTED_PROCESSES_SECONDS = 0.4, 2.0
# So long a part may need, once it is started again, until its port answers.
SERVES_SECONDS = 60.0
STORE = frozenset({"hang", "full", "read_only", "away"})
# Who may use the control folder.
USERS = ("holder", "standby", "triggerer", "task")


@dataclass
class _Armed:
    """A fault that waits for its event, or lasts."""

    id: str
    plan: PlannedFault
    began: float = 0.0
    heal_at: float = 0.0
    processes: list[psutil.Process] = field(default_factory=list)
    part: str = ""
    incarnation: str = ""
    # Of the folder: who lived at some time while it failed.
    users: set[str] = field(default_factory=set)
    undone_at: float = 0.0


class Nemesis:
    """Carries out faults, in a thread of its own while its `with` block runs. At its end everything is healed.

    :param stack: the running stack.
    :param log: a control log of its own, which no fault reaches, and which lets nobody wait.
    :param control: the control folder; None: there is none, and no fault of it is planned.
    :param clocks: of the Python processes.
    :param journal: gets an entry for each fault that happens, heals or is skipped.
    :param say: called with a line for a person.
    :param storage: the process that is the storage; None: the disk is.
    :param checkpoints: those on the disk; None: there are none, and no fault of them is planned.
    """

    def __init__(
        self,
        stack: LocalStack,
        log: ControlLog,
        control: ControlFolder | None,
        clocks: Clocks,
        journal: Journal,
        say: Callable[[str], None],
        storage: psutil.Process | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.events = Events(log)
        self.last_healed = 0.0
        self.last_fault = ""
        self._stack = stack
        self._control = control
        self._checkpoints = checkpoints
        self._clocks = clocks
        self._journal = journal
        self._say = say
        self._targets = Targets(stack, storage)
        self._missed: set[Cell] = set()
        # Faults that stop nothing, but may keep a stream that is down from being looked after: begin and end.
        self._excused: list[tuple[float, float]] = []
        self._waiting: list[_Armed] = []
        self._lasting: list[_Armed] = []
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="nemesis", daemon=True)

    def __enter__(self) -> Nemesis:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.heal_all()

    def arm(self, number: int, faults: Iterable[PlannedFault]) -> None:
        """Begin a scenario: let its faults wait for their events.

        :param number: of the scenario; the faults' ids are made of it.
        """
        with self._lock:
            self.check()
            self.events.begin()
            self._missed = set()
            self._waiting = [_Armed(f"{number}.{n}", fault) for n, fault in enumerate(faults, 1)]

    @property
    def waiting(self) -> int:
        """The number of faults that wait for their event."""
        with self._lock:
            self.check()
            return len(self._waiting)

    @property
    def missed(self) -> set[Cell]:
        """The cells of this scenario that were not reached: no event came, or it was over when the fault struck."""
        with self._lock:
            return set(self._missed)

    @property
    def excused(self) -> Sequence[tuple[float, float]]:
        """When faults lasted that can stop no commits, but may delay a recovery, in seconds since 1970."""
        with self._lock:
            going = [(a.began, math.inf) for a in self._lasting if not stops_commits(a.plan.target)]
            return [*self._excused, *going]

    @property
    def lasting(self) -> int:
        """The number of faults that are not healed yet."""
        with self._lock:
            return len(self._lasting)

    def skip(self, why: str) -> None:
        """Give up the faults whose event has not come."""
        with self._lock:
            for armed in self._waiting:
                self._missed.add(armed.plan.cell)
                self._journal.note("skipped", id=armed.id, why=f"{armed.plan.trigger.sentence}: {why}", **_cell(armed))
                self._say(
                    f"    skipped: {armed.plan.kind} of {armed.plan.target}, {armed.plan.trigger.sentence} ({why})"
                )
            self._waiting = []

    def heal_all(self) -> None:
        """End all faults at once, and skip those that wait."""
        with self._lock:
            self.skip("the run ends")
            for armed in list(self._lasting):
                while not self._heal(armed):
                    time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raise the error with which the thread has ended, if it has."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        looked = 0.0
        try:
            while True:
                hasty = self.events.name == REQUESTED
                if self._stopped.wait(REQUESTED_POLL_SECONDS if hasty else POLL_SECONDS):
                    return
                with self._lock:
                    known_for = REQUESTED_PROCESSES_SECONDS if hasty else PROCESSES_SECONDS
                    if (self._waiting or self._folder_fails) and time.monotonic() - looked > known_for:
                        self._targets.look()
                        self._note_users()
                        looked = time.monotonic()
                    self.events.look()
                    self._begin_what_is_due()
                    self._end_what_is_due()
        except BaseException as error:  # noqa: BLE001 - raised by check(), in the caller's thread
            self._error = error

    def _begin_what_is_due(self) -> None:
        for armed in list(self._waiting):
            if self.events.happened(armed.plan.trigger) and not self._in_the_way(armed):
                self._begin(armed)

    def _in_the_way(self, armed: _Armed) -> bool:
        """Whether the same thing suffers from another fault: of two faults of the folder one waits for the other."""
        target = armed.plan.target
        return any(
            other.plan.target == target and other.plan.kind in (armed.plan.kind, *STORE) for other in self._lasting
        )

    def _begin(self, armed: _Armed) -> None:
        plan, events = armed.plan, self.events
        if plan.trigger.with_standby and "standby" not in self._drivers():
            return
        if plan.target not in ("control", CHECKPOINT):
            armed.processes = self._targets.find(plan.target, events)
            if not armed.processes:
                return  # not there yet; the event may come again
            armed.incarnation = self._targets.incarnation(plan.target, events)
            if plan.kind == "torn_heartbeat" and not armed.incarnation:
                return  # its first heartbeat is still to come
            armed.part = self._targets.part(plan.target, events)
        state, drivers = events.name, self._drivers()
        self._act(armed)
        self._waiting.remove(armed)
        armed.began = time.time()
        # To find all processes of a target takes longer than a state may last: then nobody knows which one it met.
        events.look()
        between = events.name != state
        if between or state != plan.trigger.state:
            self._missed.add(plan.cell)
        armed.heal_at = time.monotonic() + plan.seconds
        self._lasting.append(armed)
        if stops_commits(plan.target):
            self.last_fault = armed.id
        self._journal.note(
            "fault",
            id=armed.id,
            **_cell(armed) | {"state": state},
            incarnation=armed.incarnation,
            pids=[process.pid for process in armed.processes],
            drivers=drivers,
            between=between,
            seconds=plan.seconds,
            jump=plan.jump,
            trigger=plan.trigger.sentence,
        )
        who = armed.incarnation or armed.part or (f"{len(armed.processes)} processes" if armed.processes else "folder")
        when = f"between {state} and {events.name}" if between else f"while {state}"
        self._say(f"    {plan.kind} {plan.target} ({who}) {when}, for {plan.seconds:.0f} s")

    def _act(self, armed: _Armed) -> None:
        plan = armed.plan
        if plan.kind == "kill":
            self._targets.kill(armed.processes)
        elif plan.kind == "freeze":
            send(armed.processes, signal.SIGSTOP)
        elif plan.kind == "clock_jump":
            self._clocks.jump([process.pid for process in armed.processes], plan.jump)
        elif plan.kind in STORE:
            self._folder.fail(plan.kind)
        elif plan.kind in CHECKPOINT_EXTRAS:
            self._all_checkpoints.fail(plan.kind)

    def _end_what_is_due(self) -> None:
        for armed in list(self._lasting):
            if armed.plan.kind == "torn_heartbeat":
                self._folder.tear_heartbeats(armed.incarnation)
            if time.monotonic() >= armed.heal_at:
                self._heal(armed)

    def _note_users(self) -> None:
        for armed in self._lasting:
            if armed.plan.kind in STORE:
                armed.users |= {name for name in USERS if name not in armed.users and self._lives(name)}

    @property
    def _folder(self) -> ControlFolder:
        assert self._control is not None, "a fault of the control folder was planned, and there is none"
        return self._control

    @property
    def _all_checkpoints(self) -> Checkpoints:
        assert self._checkpoints is not None, "a fault of the checkpoints was planned, and there are none here"
        return self._checkpoints

    @property
    def _folder_fails(self) -> bool:
        return any(armed.plan.kind in STORE for armed in self._lasting)

    def _lives(self, target: str) -> bool:
        return bool(self._targets.find(target, self.events))

    def _drivers(self) -> list[str]:
        """Return which of the drivers have a name and live."""
        return [name for name in ("holder", "standby") if self.events.incarnation(name) and self._lives(name)]

    def _heal(self, armed: _Armed) -> bool:
        """End a fault, and return whether it is over: a part that was killed is back when it serves."""
        now = time.monotonic()
        if not armed.undone_at:
            self._undo(armed)
            armed.undone_at = now
        back = armed.part if armed.plan.kind == "kill" else ""
        if back and not self._targets.serves(back) and now - armed.undone_at < SERVES_SECONDS:
            return False
        self._lasting.remove(armed)
        if stops_commits(armed.plan.target):
            self.last_healed = time.time()
        else:
            self._excused.append((armed.began, time.time()))
        self._journal.note("healed", id=armed.id, users=sorted(armed.users))
        return True

    def _undo(self, armed: _Armed) -> None:
        plan = armed.plan
        if plan.kind == "freeze":
            send(armed.processes, signal.SIGCONT)
        elif plan.kind == "kill" and armed.part:
            self._stack.processes.restart(armed.part)
        elif plan.kind == "clock_jump":
            self._clocks.set_right([process.pid for process in armed.processes])
        elif plan.kind in STORE:
            self._folder.heal(plan.kind)
        elif plan.kind in CHECKPOINT_EXTRAS:
            self._all_checkpoints.heal()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[Events]:
        """Give the events to another thread, while none is added."""
        with self._lock:
            yield self.events


def _cell(armed: _Armed) -> dict[str, str]:
    return {"kind": armed.plan.kind, "target": armed.plan.target, "state": armed.plan.trigger.state}
