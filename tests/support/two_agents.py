"""Two drivers without Spark on one control log in a topic, and Airflow's side: it asks for hand-overs, and compares."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, RuleBroken
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import IncarnationState, RequestStage
from devstack.kafka_cluster import KafkaCluster
from tests.support.agent_on_topic import STREAM
from tests.support.jvm_drivers import Driver
from tests.support.log_in_topic import log_in_topic
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, declared, requested, submitted, write

DRIVERS = (OLD, NEW)
SECONDS = 120.0
# A rule of the hand-over counts by a driver's clock from a moment that its queries note a little later or sooner.
ROUNDING = 0.5
Told = list[list[Any]]


class TwoAgents:
    """The drivers OLD and NEW of one stream; one of them holds.

    :param prefix: of the control root, that no other test uses.
    """

    def __init__(self, brokers: KafkaCluster, prefix: str) -> None:
        self.brokers = brokers
        self.client = brokers.client()
        self.topic = topic_name(prefix, STREAM)
        topic_setup.create(self.client, self.topic)
        self.log = self.reader(self.client)
        write(self.log, *(make(name) for name in (OLD_DEPLOYMENT, NEW_DEPLOYMENT) for make in (declared, submitted)))
        module = "tests.support.agent_on_topic"
        self.drivers = {name: Driver(brokers.servers, prefix, name, module=module) for name in DRIVERS}

    def begin(self) -> None:
        """Wait until both stand by, and let OLD hold."""
        assert [driver.says() for driver in self.drivers.values()] == ["open", "open"]
        brokers = self.brokers
        brokers.wait(lambda: {each.id for each in self.log.refresh().standbys()} == set(DRIVERS), SECONDS)
        assert self.outcome(self.ask(OLD)) is RequestStage.DONE

    def close(self) -> None:
        """End both drivers."""
        for driver in self.drivers.values():
            driver.close()
        self.client.close()

    def reader(self, client: KafkaClient) -> ControlLog:
        """Return a reader as Airflow has one, which has read nothing yet."""
        return log_in_topic(client, self.topic)

    def ask(self, to: str) -> str:
        """Ask for a hand-over, as a task does: until the log has it, and once; return the request's id."""
        request = uuid.uuid4().hex[:16]
        record = requested(request, to, expires=time.time() + 3600.0)

        def asked() -> bool:
            with contextlib.suppress(ControlUnavailable, RuleBroken):
                self.log.propose(lambda state: None if request in state.requests else record)
                return True
            return False

        self.brokers.wait(asked, SECONDS)
        return request

    def outcome(self, request: str) -> RequestStage:
        """Wait until a request is over."""
        self.brokers.wait(lambda: self._reads(lambda: not self.log.refresh().requests[request].stage.open), SECONDS)
        return self.log.state.requests[request].stage

    def did(self, name: str) -> list[str]:
        """Return what a driver did with its queries, in order."""
        found: list[str] = json.loads(self.drivers[name].says("tell"))["did"]
        return found

    def told(self) -> dict[str, Any]:
        """Wait until both drivers, this reader and a new one have read the same records; return what drivers tell."""
        found: dict[str, Any] = {}

        def same() -> bool:
            assert isinstance(self.log.store, TopicStore)
            self.log.store.catch_up()
            self.log.refresh()
            ours = _numbers(self.log)
            found.update({name: json.loads(driver.says("tell")) for name, driver in self.drivers.items()})
            with self.brokers.client() as client:
                theirs = [_numbers(self.reader(client)), *(each["records"] for each in found.values())]
            return all(each == ours for each in theirs)

        self.brokers.wait(lambda: self._reads(same), SECONDS)
        return found

    def check(self, request: str, source: str, epoch: int) -> None:
        """Check what came of a hand-over by the log, by what the drivers were told and by when their queries ran."""
        told = self.told()
        state, stage = self.log.state, self.log.state.requests[request].stage
        target = str(state.requests[request].to)
        assert stage in (RequestStage.DONE, RequestStage.TAKEN_BACK)
        holder = target if stage is RequestStage.DONE else source
        assert (state.holder, state.epoch, state.illegal_count) == (holder, epoch + 1, 0)
        states = {name: found.state for name, found in state.incarnations.items()}
        assert sorted(states.values()) == sorted([IncarnationState.HOLDER, IncarnationState.STANDBY])
        self._check_history()
        written = _numbers(self.log)
        lost = [each for found in told.values() for each in found["acknowledged"] if each not in written]
        assert not lost
        # Of the queries: never two at a time, and in the end those of the holder.
        assert len(told[holder]["runs"][-1]) == 1
        runs = sorted([*run, float("inf")][:2] for found in told.values() for run in found["runs"])
        assert all(end <= begin for (_, end), (begin, _) in pairwise(runs))
        if stage is RequestStage.TAKEN_BACK:
            (_, stopped), (started, _) = runs[-2:]
            assert started - stopped >= Policy().take_back_seconds - ROUNDING
        self._wait_for_heartbeats()

    def _check_history(self) -> None:
        """Count the holders by the records alone."""
        holders: set[str] = set()
        epochs = []
        for record in self.log.records():
            name = str(record.fields.get("incarnation"))
            if record.kind == Kind.ACQUIRED:
                holders.add(name)
                epochs.append(record.fields["epoch"])
            elif record.kind in (Kind.RELEASED, Kind.FAILED, Kind.FINISHED, Kind.FENCED):
                holders.discard(name)
            assert len(holders) <= 1
        assert epochs == list(range(1, self.log.state.epoch + 1))

    def _wait_for_heartbeats(self) -> None:
        def counters() -> list[int]:
            return [beat.counter for beat in self.log.heartbeats().values()]

        before: list[int] = []
        self.brokers.wait(lambda: self._reads(lambda: before.extend(counters()) or True), SECONDS)
        assert len(before) == len(DRIVERS)
        moved = lambda: all(now > then for now, then in zip(counters(), before, strict=True))  # noqa: E731
        self.brokers.wait(lambda: self._reads(moved), SECONDS)

    def _reads(self, act: Callable[[], bool]) -> bool:
        with contextlib.suppress(ControlUnavailable):
            return act()
        return False


def _numbers(log: ControlLog) -> Told:
    return [[record.seq, record.nonce] for record in log.records()]
