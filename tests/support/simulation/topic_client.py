"""The way to a topic: a process's client, whose requests and answers get lost; others come between its calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.control.topic import READ_BYTES, Fetched
from airflow_stream_provider.control.topic_reader import NEAR_BYTES
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced, ControlUnavailable
from tests.support.simulation.brokers import Brokers, Connection
from tests.support.simulation.wire import AT_WRITE, Fault, reach

if TYPE_CHECKING:
    from tests.support.simulation.world import Actor

# What befalls a heartbeat, or a claim; and a request of any kind.
AT_BEAT = {Fault.LOST: "beat lost", Fault.ANSWER_LOST: "beat's answer lost", Fault.LATE: "beat late"}
TORN = "connection torn"
# Messages that a request returns, by the bytes that are asked for.
FEW = {1: 1, NEAR_BYTES: 3}
# How often others come between a heartbeat's composition and its write, and between a write and what it reads then.
BETWEEN = 0.1


class TopicClient:
    """A client of a topic; implements `Topic`.

    :param by_name: it reads whatever topic has the name, and asks for the id where that is doubtful, as a driver's
        client does; Airflow's names the topic by its id.
    """

    name = "the simulated topic"

    def __init__(self, process: Actor, brokers: Brokers, *, by_name: bool) -> None:
        self._process = process
        self._brokers = brokers
        self._mine = brokers.of(process)
        self._by_name = by_name
        self._id = ""
        # So many records were committed before its last heartbeat.
        self.behind = 0
        self._until = float("inf")

    @property
    def _actor(self) -> Actor:
        actor = self._process.world.current
        assert actor is not None
        return actor

    @property
    def _connection(self) -> Connection:
        ours = self._brokers.airflow
        return self._mine if self._by_name or ours.stale_end is None else ours

    @property
    def stale(self) -> bool:
        """Whether it reads from a broker that leads no more."""
        return self._connection.stale_end is not None

    def topic_id(self) -> str:
        """Return the id of the topic that was opened."""
        if not self._id:
            self._request()
        return self._id

    def check_same(self) -> None:
        """Ask for the topic's id again."""
        if self._by_name:
            self._request()
            self._expect_same()

    def write(self, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> int:
        """Write to the topic of this name, as a producer does, which knows no ids."""
        brokers, actor, world = self._brokers, self._actor, self._process.world
        kind = key.partition(b"/")[0]
        if kind == b"record":
            actor.point(doing="create")
        elif brokers.rng.random() < BETWEEN:
            actor.point()
        fault = self._fault(kind)
        sent = world.now

        def land() -> int:
            return brokers.produce(key, value, headers, sent)

        try:
            self._request(writes=True)
        except ControlUnavailable:
            if actor.doing == "hang":
                world.late.append(partial(_arrive, land))
            raise
        name = (AT_WRITE if kind == b"record" else AT_BEAT).get(fault)
        if fault is Fault.LATE:
            world.late.append(partial(_arrive, land))
        if fault in (Fault.LOST, Fault.LATE):
            actor.strikes(name)
            raise ControlUnavailable("The request was lost.")
        offset = land()
        if kind == b"heartbeat":
            self.behind = len(brokers.truth.stored)
        if fault is not Fault.NONE:
            actor.strikes(name)
            actor.blind = fault is Fault.BLIND
            raise ControlUnavailable("The answer was lost.")
        if kind == b"record" or brokers.rng.random() < BETWEEN:
            actor.point()
        return offset

    def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
        """Return what is committed from an offset on, as far as this process's broker knows; not always all of it."""
        self._request()
        actor, brokers, stale = self._actor, self._brokers, self._connection.stale_end
        if actor.blind:
            actor.blind = False
            raise ControlUnavailable("It cannot be read now.")
        if not self._by_name:
            self._expect_same()
        end = brokers.high if brokers.shown is None else brokers.shown
        last = brokers.end
        if stale is not None:
            end, last = min(end, stale), min(last, stale)
        if not brokers.first <= offset <= last:
            if self._by_name:
                self._expect_same()
            raise ControlLogDamaged(f"Offset {offset} is not in {brokers.first} to {last}.")
        if offset >= end:
            return Fetched((), offset, end)
        count = FEW.get(size) or (brokers.rng.randint(1, 6) if brokers.rng.random() < BETWEEN else 500)
        found = brokers.messages[(begin := brokers.place(offset)) : begin + count]
        while found and found[-1].offset >= end:
            found.pop()
        behind = found[-1].offset + 1 if len(found) == count else max(offset, end)
        return Fetched(tuple(found), behind, end)

    def begin_call(self) -> None:
        """A call of the store begins; a driver's has a deadline."""
        process: Any = self._process
        if self._by_name:
            self._until = process.clock + process.policy.lease_seconds / 6

    # -- what befalls them -----------------------------------------------------------------------------------------

    def _request(self, *, writes: bool = False) -> None:
        """Reach the brokers; most operations of the store need two requests."""
        process: Any = self._process
        connection = self._connection
        if self._by_name and process.clock > self._until:
            raise ControlUnavailable("The control log has not answered in time.")
        reach(process, self._actor, process.world.store_slow / 2)
        if connection.tears >= 0:
            connection.tears -= 1
            if connection.tears < 0:
                self._actor.strikes(TORN)
                raise ControlUnavailable("The connection was torn.")
        if not self._brokers.exists:
            raise ControlUnavailable("The topic does not exist, or the broker does not know of it yet.")
        self._id = self._id or self._brokers.id
        if writes and connection.writes_fail:
            raise ControlUnavailable("NOT_LEADER_OR_FOLLOWER")

    def _fault(self, kind: bytes) -> Fault:
        actor, connection = self._actor, self._connection
        fault = Fault.NONE
        if kind == b"record":
            fault, actor.fault = actor.fault, Fault.NONE
        elif kind in (b"heartbeat", b"owner"):
            fault, connection.at_beat = connection.at_beat, Fault.NONE
        return fault

    def _expect_same(self) -> None:
        if self._brokers.id != self._id:
            raise ControlLogReplaced("The topic was made anew.")


def _arrive(land: Callable[[], int]) -> None:
    with contextlib.suppress(ControlUnavailable):
        land()
