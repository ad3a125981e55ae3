"""A hand-over between two drivers over three real brokers, of which the leader fails at every step, and comes back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from airflow_stream_provider.lifecycle.state import RequestStage
from devstack.kafka_cluster import KafkaCluster
from tests.support.story import NEW, OLD
from tests.support.three_brokers import brokers, certificates, in_sync, leader
from tests.support.two_agents import TwoAgents

__all__ = ["brokers", "certificates"]

pytestmark = pytest.mark.system

_prefixes = (f"streams-{number}" for number in itertools.count(1))


class Stream:
    """The two drivers, which all tests share: they hand over to and fro. After a test that failed there are others."""

    def __init__(self, brokers: KafkaCluster) -> None:
        self._brokers = brokers
        self._agents: TwoAgents | None = None
        self.sound = False

    def agents(self) -> TwoAgents:
        if self._agents is None or not self.sound:
            self.close()
            self._agents = TwoAgents(self._brokers, next(_prefixes))
            self._agents.begin()
        self.sound = False
        return self._agents

    def close(self) -> None:
        if self._agents is not None:
            self._agents.close()
        self._agents = None


@pytest.fixture(scope="module")
def stream(brokers: KafkaCluster) -> Iterator[Stream]:
    found = Stream(brokers)
    yield found
    found.close()


@pytest.mark.parametrize("fault", ["killed", "frozen"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["requested", "ready", "released", "acquired"])
def test_there_is_one_holder_whatever_befalls_the_leader(
    brokers: KafkaCluster, stream: Stream, kind: str, moment: str, fault: str
) -> None:
    agents = stream.agents()
    before = agents.log.refresh()
    source, epoch = str(before.holder), before.epoch
    target = NEW if source == OLD else OLD
    number = leader(agents.client, agents.topic)

    def strike() -> None:
        if fault == "killed":
            brokers.kill(number)
        else:
            brokers.freeze(number)

    try:
        if kind == "requested":  # by Airflow, which is this process
            if moment == "before":
                strike()
            request = agents.ask(target)
            if moment == "after":
                strike()
        else:
            writer = agents.drivers[source if kind == "released" else target]
            assert writer.says(f"trap {moment} {kind}") == "set"
            request = agents.ask(target)
            assert writer.says("trapped") == "trapped"
            strike()
            assert writer.says("go") == "gone"
        agents.outcome(request)
        brokers.wait(lambda: leader(agents.client, agents.topic) not in (-1, number))
    finally:
        if fault == "frozen":
            brokers.thaw(number)
        elif number not in brokers._running:
            brokers.start(number)
    brokers.wait(lambda: in_sync(agents.client, agents.topic) == 3)
    agents.check(request, source, epoch)
    stream.sound = True


def test_an_appointed_driver_that_writes_too_late_does_not_hold(brokers: KafkaCluster, stream: Stream) -> None:
    """It is about to write `acquired` when the leader is killed, and does so when the other has taken the stream back.

    By then its own call has been given up (`AnsweringStore`), and what it writes comes to the new leader.
    """
    agents = stream.agents()
    before = agents.log.refresh()
    source, epoch = str(before.holder), before.epoch
    target = NEW if source == OLD else OLD
    number = leader(agents.client, agents.topic)
    late = agents.drivers[target]
    assert late.says("trap before acquired") == "set"
    request = agents.ask(target)
    assert late.says("trapped") == "trapped"
    brokers.kill(number)
    try:
        assert agents.outcome(request) is RequestStage.TAKEN_BACK
        assert late.says("go") == "gone"
    finally:
        brokers.start(number)
    brokers.wait(lambda: in_sync(agents.client, agents.topic) == 3)
    agents.check(request, source, epoch)
    stream.sound = True
