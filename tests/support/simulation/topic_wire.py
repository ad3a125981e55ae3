"""A stream's log in a topic, as a process has it: the product's store, on virtual time, with a client that fails."""

from __future__ import annotations

import time as real_time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from airflow_stream_provider.control import log as control_log
from airflow_stream_provider.control import topic, topic_index, topic_reader, topic_store
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState
from tests.support.simulation.brokers import Brokers
from tests.support.simulation.data import Data
from tests.support.simulation.driver import Driver
from tests.support.simulation.invariants import Broken
from tests.support.simulation.topic_client import TopicClient
from tests.support.simulation.world import Actor, World

# 0.02 s in the product; fewer turns are simulated.
SLEEP_SECONDS = 0.2


class TopicWorld(World):
    """A world whose control log is in a topic; `root` is the topic of the control root."""

    def __init__(self, seed: int, data: Data | None = None, *policies: Policy) -> None:
        self.log_topic, self.root = Brokers(f"{seed} log"), Brokers(f"{seed} root")
        super().__init__(self.log_topic.truth, data, *policies)
        self.log_topic.world = self.root.world = self

    @property
    def topics(self) -> tuple[Brokers, ...]:
        """All there are."""
        return self.log_topic, self.root

    @property
    def takes_nothing(self) -> bool:
        return self.log_topic.short

    def open_log(self, process: Actor) -> ControlLog:
        return TopicLog(process, self.log_topic)


class TopicLog(ControlLog):
    """A control log in a topic, as a process reads it."""

    def __init__(self, process: Actor, brokers: Brokers) -> None:
        self.client = TopicClient(process, brokers, by_name=isinstance(process, Driver))
        store = TopicStore(self.client, "orders")
        replaced: Any = store
        replaced._lock = Call(self.client)
        super().__init__(store, "orders")
        self._brokers = brokers
        self._process = process

    def refresh(self) -> StreamState:
        with self._whole_log():
            return super().refresh()

    def append(self, record: Record, expected_seq: int) -> Record:
        with self._whole_log():
            return super().append(record, expected_seq)

    def beat(self, incarnation: str, heartbeat: Heartbeat) -> None:
        super().beat(incarnation, heartbeat)
        if self.state.seq < self.client.behind and not self._brokers.disaster:
            found = f"{incarnation} has read {self.state.seq} of {self.client.behind}"
            self._process.world.violation = Broken("beat-is-a-barrier", found)

    @contextmanager
    def _whole_log(self) -> Iterator[None]:
        """Nobody may doubt a log that nothing has befallen."""
        stale = self.client.stale
        try:
            yield
        except (ControlLogDamaged, ControlLogReplaced) as error:
            # A broker that was left behind does not have the offset that somebody goes on from: it looks cut off.
            stale = stale or self.client.stale
            if not self._brokers.disaster and not (stale and isinstance(error, ControlLogDamaged)):
                self._process.world.violation = Broken("no-false-alarm", error)
            raise


class Call:
    """The lock of a store: one thread of a process uses it at a time, and no driver's call takes too long.

    The runtime gives a call up from another thread (`runtime/answering_store.py`); here its next request does.
    """

    def __init__(self, client: TopicClient) -> None:
        self._client = client
        self._depth = 0

    def __enter__(self) -> None:
        if not self._depth:
            self._client.begin_call()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


class VirtualTime:
    """The module `time`, for whoever writes a record or uses a topic."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        """By the clock of the machine that asks."""
        actor = self._world.current
        return self._world.now + (actor.process.skew if actor else 0.0)

    def monotonic(self) -> float:
        actor = self._world.current
        return actor.process.clock if actor and isinstance(actor.process, Driver) else self._world.now

    def sleep(self, seconds: float) -> None:
        actor = self._world.current
        assert actor is not None
        actor.point(SLEEP_SECONDS)


@contextmanager
def virtual_time(world: World) -> Iterator[None]:
    """Let the log, and the code of topics, go by the clocks of a world, and read each key and header once."""
    assert vars(control_log)["time"] is real_time, "a world whose time goes on was left: close its machine's `within`"
    time = VirtualTime(world)
    with ExitStack() as patched:
        for module in (control_log, topic, topic_reader, topic_store):
            patched.enter_context(patch.object(module, "time", time))
        for name in ("number_of", "replaced_key"):
            once = cache(getattr(topic_index, name))
            for module in (topic_index, topic_reader):
                patched.enter_context(patch.object(module, name, once))
        read_to = cache(topic_index.ReadTo.from_header)
        patched.enter_context(patch.object(topic_index.ReadTo, "from_header", staticmethod(read_to)))
        yield
