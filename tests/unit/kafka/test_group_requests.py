"""A group coordinator that accepts connections and never answers; offsets themselves are in the integration tests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka.net.manager import KafkaConnectionManager

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lag.reader import LagReader
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.targets import LagTarget
from tests.support.wire_kafka import WireKafka

PATIENCE = 1.5


@pytest.fixture(params=[False, True], ids=["from the first byte", "after the hand-shake"])
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireKafka]:
    # How long a hand-shake may take; 10 s by default.
    monkeypatch.setitem(KafkaConnectionManager.DEFAULT_CONFIG, "socket_connection_setup_timeout_ms", PATIENCE * 1000)
    started = WireKafka(shakes_hands=request.param)
    yield started
    started.close()


@pytest.fixture
def client(kafka: WireKafka) -> Iterator[KafkaClient]:
    extra = {"bootstrap.servers": kafka.servers, "socket.timeout.ms": round(PATIENCE * 1000)}
    with KafkaClient("kafka", extra) as opened:
        yield opened


def test_a_coordinator_that_hangs_is_named_and_does_not_hide_the_other_groups(
    client: KafkaClient, kafka: WireKafka
) -> None:
    targets = [LagTarget("kafka", group=group) for group in ("hung-1", "hung-2", "well")]
    began = time.monotonic()
    found = LagReader(client).read(dict.fromkeys(targets, Moments()))
    assert time.monotonic() - began < 2 * PATIENCE + 3.0
    reports = {target.group: report for target, report in found.items() if isinstance(report, LagReport)}
    assert kafka.unanswered
    assert (reports["well"].complete, reports["well"].records) == (True, 0)
    for group in ("hung-1", "hung-2"):
        (query,) = reports[group].queries
        assert not query.complete
        assert query.problem.startswith("Broker 2 does not answer")
