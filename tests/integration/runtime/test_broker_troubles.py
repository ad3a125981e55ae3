"""A control log in a topic whose broker has a full disk, is behind a slow network, or hangs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, RuleBroken
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import RequestStage
from devstack.kafka_cluster import KafkaCluster
from tests.support.jvm_drivers import Driver, driver
from tests.support.log_in_topic import log_in_topic
from tests.support.namespaces import COMMAND, needs_namespaces
from tests.support.slow_link import slow_link
from tests.support.story import NEW, OLD, RUNNING, declared, write
from tests.support.two_agents import TwoAgents

__all__ = ["driver"]

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[3]
TOPIC = "streams.orders"
# Bytes per second: of a good network, of one with which a call takes a second, and of one over which a record, or a
# heartbeat, does not arrive in time.
QUICK, SLOW, TOO_SLOW = 10**9, 5000, 100


@needs_namespaces
def test_a_log_on_a_full_disk_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [*COMMAND, sys.executable, "-m", "tests.support.small_broker", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("well again\n")


class Network:
    """The way to the only broker."""

    def __init__(self) -> None:
        self.bytes_per_second = QUICK


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def distant(tmp_path: Path, network: Network) -> Iterator[KafkaCluster]:
    """A broker whose clients all come over that network."""
    brokers = KafkaCluster(tmp_path)
    with slow_link(int(brokers.servers.rpartition(":")[2]), lambda: network.bytes_per_second) as port:
        brokers._extra["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
        with brokers:
            yield brokers


def test_calls_over_a_slow_network_end_in_time_and_what_arrives_late_counts_once(
    distant: KafkaCluster, network: Network, driver: Callable[..., Driver]
) -> None:
    in_time, *late = (f"orders-{number}-cccc" for number in range(3))
    with KafkaClient("test", {**distant.extra, "socket.timeout.ms": 5000}) as client:
        topic_setup.create(client, TOPIC)
        log = log_in_topic(client, TOPIC)
        write(log, *RUNNING)
        there = driver(distant.servers, TOPIC)
        assert there.says() == "open"
        assert there.says("beat 1") == "beaten"

        network.bytes_per_second = SLOW
        assert there.says("read") == f"{len(RUNNING)} {OLD}"
        assert there.says("beat 2") == "beaten"
        write(log, declared(in_time))

        network.bytes_per_second = TOO_SLOW
        for name in late:
            with pytest.raises(ControlUnavailable):
                log.append(_long(name), log.state.seq)
        assert there.says("beat 3").startswith("ControlUnavailable: The control log in the topic")

        network.bytes_per_second = QUICK
        # As a task does, which is tried again: what has landed meanwhile is not written once more.
        for name in late:
            distant.wait(partial(_declare, log, name), 120.0)
        # Behind a record that it has not read, a driver's heartbeat renews nothing.
        distant.wait(lambda: there.says("read") == f"{log.state.seq} {OLD}")
        assert there.says("beat 4") == "beaten"
        told = Counter(str(record.fields["deployment"]) for record in log.records()[len(RUNNING) :])
        assert told == Counter([in_time, *late])
        assert log.refresh().illegal_count == 0
        with distant.client() as other:
            assert log_in_topic(other, TOPIC).refresh() == log.state


def _long(deployment: str) -> Record:
    found = declared(deployment)
    return replace(found, fields={**found.fields, "reason": "x" * 3000})


def _declare(log: ControlLog, deployment: str) -> bool:
    with contextlib.suppress(ControlUnavailable, RuleBroken):
        log.propose(lambda state: None if deployment in state.deployments else declared(deployment))
        return True
    return False


def test_a_holder_whose_only_broker_hangs_pauses_and_goes_on(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path) as brokers:
        agents = TwoAgents(brokers, "streams")
        try:
            agents.begin()
            epoch = agents.log.refresh().epoch
            brokers.freeze(1)
            try:
                brokers.wait(lambda: agents.did(OLD)[-1:] == ["pause"])
            finally:
                brokers.thaw(1)
            brokers.wait(lambda: agents.did(OLD)[-2:] == ["pause", "resume"])
            assert (agents.log.refresh().holder, agents.log.state.epoch) == (OLD, epoch)
            request = agents.ask(NEW)
            assert agents.outcome(request) is RequestStage.DONE
            agents.check(request, OLD, epoch)
        finally:
            agents.close()
