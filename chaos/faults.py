"""Make the planned faults happen when their events come, end them in time, and journal both."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import psutil

from airflow_stream_provider.control import ControlLog
from chaos.clock import Clocks
from chaos.events import Events
from chaos.journal import Journal
from chaos.plan import PlannedFault
from chaos.store_faults import ControlFolder
from chaos.targets import Targets, send
from devstack.stack import LocalStack

POLL_SECONDS = 0.02
PROCESSES_SECONDS = 0.4
STORE = frozenset({"hang", "full", "read_only", "away"})


@dataclass
class _Armed:
    """A fault that waits for its event, or lasts."""

    id: str
    plan: PlannedFault
    heal_at: float = 0.0
    processes: list[psutil.Process] = field(default_factory=list)
    part: str = ""
    incarnation: str = ""


class Nemesis:
    """Carries out faults, in a thread of its own while its `with` block runs. At its end everything is healed.

    :param stack: the running stack.
    :param log: a control log of its own, which no fault reaches.
    :param control: the control folder.
    :param clocks: of the Python processes.
    :param journal: gets an entry for each fault that happens, heals or is skipped.
    :param say: called with a line for a person.
    """

    def __init__(
        self,
        stack: LocalStack,
        log: ControlLog,
        control: ControlFolder,
        clocks: Clocks,
        journal: Journal,
        say: Callable[[str], None],
    ) -> None:
        self.events = Events(log)
        self.last_healed = 0.0
        self.last_fault = ""
        self._stack = stack
        self._control = control
        self._clocks = clocks
        self._journal = journal
        self._say = say
        self._targets = Targets(stack)
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
            self.last_fault, self.last_healed = "", 0.0
            self._waiting = [_Armed(f"{number}.{n}", fault) for n, fault in enumerate(faults, 1)]

    @property
    def waiting(self) -> int:
        """The number of faults that wait for their event."""
        with self._lock:
            self.check()
            return len(self._waiting)

    @property
    def lasting(self) -> int:
        """The number of faults that are not healed yet."""
        with self._lock:
            return len(self._lasting)

    def skip(self, why: str) -> None:
        """Give up the faults whose event has not come."""
        with self._lock:
            for armed in self._waiting:
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
                self._heal(armed)

    def check(self) -> None:
        """Raise the error with which the thread has ended, if it has."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        looked = 0.0
        try:
            while not self._stopped.wait(POLL_SECONDS):
                with self._lock:
                    if self._waiting and time.monotonic() - looked > PROCESSES_SECONDS:
                        self._targets.look()
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
        if plan.target != "control":
            armed.processes = self._targets.find(plan.target, events)
            if not armed.processes:
                return  # not there yet; the event may come again
            armed.incarnation = events.incarnation(plan.target) if plan.target not in _PARTS else ""
            if plan.kind == "torn_heartbeat" and not armed.incarnation:
                return  # its first heartbeat is still to come
            armed.part = self._targets.part(plan.target, events)
        state = events.name
        self._act(armed)
        self._waiting.remove(armed)
        armed.heal_at = time.monotonic() + plan.seconds
        self._lasting.append(armed)
        self.last_fault = armed.id
        self._journal.note(
            "fault",
            id=armed.id,
            **_cell(armed) | {"state": state},
            incarnation=armed.incarnation,
            pids=[process.pid for process in armed.processes],
            drivers=[target for target in ("holder", "standby") if events.incarnation(target)],
            seconds=plan.seconds,
            jump=plan.jump,
            trigger=plan.trigger.sentence,
        )
        who = armed.incarnation or armed.part or (f"{len(armed.processes)} processes" if armed.processes else "folder")
        self._say(f"    {plan.kind} {plan.target} ({who}) while {state}, for {plan.seconds:.0f} s")

    def _act(self, armed: _Armed) -> None:
        plan = armed.plan
        if plan.kind == "kill":
            send(armed.processes, signal.SIGKILL)
        elif plan.kind == "freeze":
            send(armed.processes, signal.SIGSTOP)
        elif plan.kind == "clock_jump":
            self._clocks.jump([process.pid for process in armed.processes], plan.jump)
        elif plan.kind in STORE:
            self._control.fail(plan.kind)

    def _end_what_is_due(self) -> None:
        for armed in list(self._lasting):
            if armed.plan.kind == "torn_heartbeat":
                self._control.tear_heartbeats(armed.incarnation)
            if time.monotonic() >= armed.heal_at:
                self._heal(armed)

    def _heal(self, armed: _Armed) -> None:
        plan = armed.plan
        if plan.kind == "freeze":
            send(armed.processes, signal.SIGCONT)
        elif plan.kind == "kill" and armed.part:
            self._stack.processes.restart(armed.part)
        elif plan.kind == "clock_jump":
            self._clocks.set_right([process.pid for process in armed.processes])
        elif plan.kind in STORE:
            self._control.heal(plan.kind)
        self._lasting.remove(armed)
        self.last_healed = time.time()
        self._journal.note("healed", id=armed.id)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[Events]:
        """Give the events to another thread, while none is added."""
        with self._lock:
            yield self.events


_PARTS = ("worker", "master", "broker", "scheduler", "triggerer", "task", "executor")


def _cell(armed: _Armed) -> dict[str, str]:
    return {"kind": armed.plan.kind, "target": armed.plan.target, "state": armed.plan.trigger.state}
