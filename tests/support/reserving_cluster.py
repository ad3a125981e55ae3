"""Clusters that reserve ids, as YARN does, and tries that share one step by step, in every order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from airflow_stream_provider.clusters import DriverState, DriverView, FoundDrivers, Job, SubmitUnclear, Whose
from airflow_stream_provider.lifecycle.errors import ClusterError


class Killed(BaseException):
    """The process of a try was killed."""


class Shared:
    """What the cluster has: the ids that it has handed out, and what it was sent. `start` counts its own starts."""

    def __init__(self) -> None:
        self.start = 1
        self.handed_out = 0
        self.sent: list[str] = []
        self.known: dict[str, DriverState] = {}

    def restart(self) -> None:
        """Start it anew: it knows nothing of before."""
        self.start += 1
        self.known.clear()


class ReservingCluster:
    """The cluster as one try reaches it. `point` is called before each step, and may raise `Killed`.

    :param answers_lost: the submissions arrive, and their answers do not.
    """

    def __init__(self, shared: Shared, point: Callable[[], None], *, answers_lost: bool = False) -> None:
        self._shared = shared
        self._point = point
        self._answers_lost = answers_lost

    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        self._point()
        shared = self._shared
        shared.handed_out += 1
        reserved = note(f"application_{shared.start}_{shared.handed_out}")
        self._point()
        if reserved not in shared.known:
            if not self._of_this_start(reserved):
                raise ClusterError("The id is of an earlier start.")
            self._point()
            shared.sent.append(reserved)  # the ResourceManager itself starts nothing when it has the id
            if shared.sent.count(reserved) == 1:
                shared.known[reserved] = DriverState.RUNNING
        if self._answers_lost:
            raise SubmitUnclear("The answer was lost.")
        return reserved

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        self._point()
        return FoundDrivers(tuple(sorted(self._shared.known)))

    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        self._point()
        absent = {each: DriverState.RESERVED if self._of_this_start(each) else DriverState.LOST for each in ids}
        return {each: DriverView(self._shared.known.get(each, absent[each])) for each in ids}

    def _of_this_start(self, submission: str) -> bool:
        return submission.startswith(f"application_{self._shared.start}_")


class TaggingCluster:
    """A cluster whose ids are its own tags, as YARN's with Kerberos, as one try reaches it; `point` as above.

    Only who has made an id can send it. What is on its way dies with its try. `Shared.start` above 1: the bound is
    over, within which what was sent may come.
    """

    def __init__(self, shared: Shared, point: Callable[[], None]) -> None:
        self._shared = shared
        self._point = point

    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        self._point()
        shared = self._shared
        shared.handed_out += 1
        made = f"tag_{shared.handed_out}"
        reserved = note(made)
        self._point()
        if reserved == made:
            shared.sent.append(reserved)
            self._point()
            shared.known[reserved] = DriverState.RUNNING
        self._point()
        if reserved not in shared.known:
            raise SubmitUnclear("It may be on its way.")
        return reserved

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        self._point()
        return FoundDrivers(tuple(sorted(self._shared.known)))

    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        self._point()
        absent = DriverState.LOST if self._shared.start > 1 else DriverState.RESERVED
        return {each: DriverView(self._shared.known.get(each, absent)) for each in ids}


class Turns:
    """Threads of which one runs at a time; whose turn it is next is said from outside."""

    def __init__(self) -> None:
        self._go: dict[str, threading.Semaphore] = {}
        self._paused = threading.Semaphore(0)
        self._threads: dict[str, threading.Thread] = {}
        self._kill: set[str] = set()
        self.errors: list[BaseException] = []

    def add(self, name: str, run: Callable[[Callable[[], None]], None]) -> None:
        """Add a thread. It is paused before it begins, and whenever it calls the function that `run` is given."""
        self._go[name] = threading.Semaphore(0)

        def point() -> None:
            self._paused.release()
            self._go[name].acquire()
            if name in self._kill:
                raise Killed

        def body() -> None:
            try:
                self._go[name].acquire()
                if name not in self._kill:
                    run(point)
            except Killed:
                pass
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.errors.append(error)
            finally:
                del self._go[name]
                self._paused.release()

        self._threads[name] = threading.Thread(target=body, daemon=True)
        self._threads[name].start()

    @property
    def waiting(self) -> list[str]:
        """The threads that have not ended."""
        return sorted(self._go)

    def step(self, name: str, *, kill: bool = False) -> None:
        """Let one thread go on to its next pause, or to its end; or kill it where it is."""
        if kill:
            self._kill.add(name)
        self._go[name].release()
        self._paused.acquire()
