"""A group coordinator that never answers, and topics that it hides; a real one is in the integration tests."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka.net.manager import KafkaConnectionManager

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.reader import LagReader
from airflow_stream_provider.lag.report import LagReport, PartitionState, QueryLag
from airflow_stream_provider.lag.targets import LagTarget
from tests.support.wire_kafka import FIRST_BYTE, HAND_SHAKE, WireKafka, wait_for_it

PATIENCE = 10.0  # a busy machine must get the answers of the others through meanwhile


def lag_of(client: KafkaClient, group: str) -> QueryLag:
    target = LagTarget("kafka", group=group)
    report = LagReader(client, FilesRoot).read({target: Moments()})[target]
    assert isinstance(report, LagReport)
    return report.queries[0]


@pytest.mark.parametrize(
    ("reads", "state", "problem"),
    [
        ("secret", PartitionState.UNREADABLE, "Kafka denies the connection's user access to the topic secret"),
        ("begun", PartitionState.NO_COMMIT, "There is no commit for partition 0 of the topic begun."),
    ],
)
def test_what_a_member_reads_and_kafka_tells_no_commit_of_is_unknown(
    client: KafkaClient, kafka: WireKafka, reads: str, state: PartitionState, problem: str
) -> None:
    """Found by a review: Kafka leaves a topic that an ACL hides out of a group's offsets, and the report was whole."""
    kafka.assign("g", "t", reads)
    found = lag_of(client, "g")
    assert {p.topic: p.state for p in found.partitions} == {"t": PartitionState.OK, reads: state}
    assert (found.complete, found.problem.startswith(problem)) == (False, True)


@pytest.mark.parametrize("assigned", [b"", b"not of this protocol", None])
def test_members_that_read_nothing_else_change_nothing(
    client: KafkaClient, kafka: WireKafka, assigned: bytes | None
) -> None:
    if assigned is None:
        kafka.assign("g", "t")
    else:
        kafka.assigned["g"] = assigned
    found = lag_of(client, "g")
    assert (found.complete, found.records, found.problem) == (True, 0, "")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireKafka]:
    wait_for_it(monkeypatch)
    # How long a hand-shake may take; 10 s by default.
    monkeypatch.setitem(KafkaConnectionManager.DEFAULT_CONFIG, "socket_connection_setup_timeout_ms", PATIENCE * 1000)
    started = WireKafka()
    yield started
    started.close()


@pytest.fixture
def client(kafka: WireKafka) -> Iterator[KafkaClient]:
    extra = {"bootstrap.servers": kafka.servers, "socket.timeout.ms": round(PATIENCE * 1000)}
    with KafkaClient("kafka", extra) as opened:
        yield opened


@pytest.mark.parametrize("since", [FIRST_BYTE, HAND_SHAKE])
def test_a_coordinator_that_hangs_is_named_and_does_not_hide_the_other_groups(
    client: KafkaClient, kafka: WireKafka, since: str
) -> None:
    kafka.hangs = since
    targets = [LagTarget("kafka", group=group) for group in ("hung-1", "hung-2", "well")]
    began = time.monotonic()
    found = LagReader(client, FilesRoot).read(dict.fromkeys(targets, Moments()))
    assert time.monotonic() - began < 60.0
    reports = {target.group: report for target, report in found.items() if isinstance(report, LagReport)}
    assert kafka.unanswered
    assert (reports["well"].complete, reports["well"].records) == (True, 0)
    for group in ("hung-1", "hung-2"):
        (query,) = reports[group].queries
        assert not query.complete
        assert query.problem.startswith("Broker 2 does not answer")
