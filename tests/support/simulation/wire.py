"""The way to the store: where messages are lost, and where others come between a read and a write."""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SeqTaken
from tests.support.simulation.memory_store import LogStore

if TYPE_CHECKING:
    from tests.support.simulation.world import Actor


class Fault(Enum):
    """What happens to an actor's next create."""

    NONE = "it arrives, and so does the answer"
    LOST = "it never arrives"
    ANSWER_LOST = "it arrives, the answer does not"
    BLIND = "it arrives, but neither the answer does nor can it be read back"
    REPEATED = "it arrives twice, and the second answer is the one that is seen"
    LATE = "it arrives after the writer has given up"


# What these are called where they befall a record, or a submission.
AT_WRITE = {
    Fault.LOST: "write lost",
    Fault.ANSWER_LOST: "answer lost",
    Fault.BLIND: "answer unreadable",
    Fault.REPEATED: "write repeated",
    Fault.LATE: "write late",
}


class Wire(LogStore):
    """The store, as an actor reaches it."""

    def __init__(self, actor: Actor) -> None:
        self._process = actor
        self._world = actor.world

    @property
    def _actor(self) -> Actor:
        """The thread of the process that uses the store now."""
        assert self._world.current is not None
        return self._world.current

    def create(self, seq: int, data: bytes) -> None:
        self._actor.point(doing="create")
        fault, self._actor.fault = self._actor.fault, Fault.NONE
        try:
            self._reach(writes=True)
        except ControlUnavailable:
            if self._actor.doing == "hang":
                self._world.late.append(lambda: self._arrive(seq, data))
            raise
        if fault is Fault.LATE:
            self._world.late.append(lambda: self._arrive(seq, data))
        if fault in (Fault.LOST, Fault.LATE):
            self._actor.strikes(AT_WRITE[fault])
            raise ControlUnavailable("The request was lost.")
        self._world.store.create(seq, data)
        self._actor.strikes(AT_WRITE.get(fault))
        if fault is Fault.REPEATED:
            raise SeqTaken(f"{seq} is taken.")
        if fault in (Fault.ANSWER_LOST, Fault.BLIND):
            self._actor.blind = fault is Fault.BLIND
            raise ControlUnavailable("The answer was lost.")

    def read(self, seq: int) -> bytes | None:
        self._reach()
        if self._actor.blind:
            self._actor.blind = False
            raise ControlUnavailable("It cannot be read now.")
        return self._world.store.read(seq)

    def next_number(self, seq: int) -> int | None:
        self._reach()
        return self._world.store.next_number(seq)

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        self._reach(writes=True)
        self._world.store.put_heartbeat(incarnation, data)
        self._world.torn_beats.discard(incarnation)
        self._world.drivers[incarnation].beat_at = self._world.now

    def heartbeat(self, incarnation: str) -> bytes | None:
        self._reach()
        return self._world.store.heartbeat(incarnation)

    def heartbeats(self) -> list[str]:
        self._reach()
        return self._world.store.heartbeats()

    def put_saved_state(self, data: bytes) -> None:
        self._reach(writes=True)
        self._world.store.put_saved_state(data)

    def saved_state(self) -> bytes | None:
        self._reach()
        return self._world.store.saved_state()

    def _arrive(self, seq: int, data: bytes) -> None:
        store = self._world.store
        # Nobody can write a record that does not follow another one.
        if seq == 1 or store.read(seq - 1) is not None:
            with contextlib.suppress(SeqTaken):
                store.create(seq, data)

    def _reach(self, *, writes: bool = False) -> None:
        reach(self._process, self._actor, self._world.store_slow)
        if writes and self._world.store_full:
            raise ControlUnavailable("No space is left.")


def reach(process: Actor, actor: Actor, slow: float) -> None:
    """Reach the store from a thread of a process; others come between while it hangs, or is slow.

    :param slow: seconds that this call takes.
    :raises ControlUnavailable: there is no answer.
    """
    world = process.world
    if world.now < process.hangs_until:
        # The runtime's calls have a deadline, in a thread of their own (`runtime/answering_store.py`).
        actor.point(min(process.hangs_until - world.now, process.policy.lease_seconds / 6), "hang")
        raise ControlUnavailable("The store has not answered.")
    if slow:
        actor.point(slow, "slow")
    if world.store_down or process.cut:
        raise ControlUnavailable("The store is out of reach.")
