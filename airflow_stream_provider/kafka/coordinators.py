"""Requests to coordinators, of consumer groups and of transactions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.answers import Answers, no_answer
from airflow_stream_provider.kafka.requests import PAUSES, Requests

if TYPE_CHECKING:
    from kafka import TopicPartition

# Longer pauses than for topics: the first group of a cluster makes Kafka create __consumer_offsets.
COORDINATOR_PAUSES = (*PAUSES, 2.0, 4.0)
# For a partition that a member reads without a commit; the value is Kafka's own.
NO_COMMIT = -1
GROUP_KEY = 0  # Kafka's key type of a group coordinator, as opposed to a transaction coordinator

log = logging.getLogger(__name__)


async def group_offsets(requests: Requests, groups: list[str]) -> Answers[str, dict[TopicPartition, int]]:
    """Return the committed offsets of each group; see `KafkaClient.groups_offsets`.

    Needs Kafka 3.0 or later, for several groups in one request (KIP-699, KIP-709).
    """
    from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError, RetriableError, for_code

    found: Answers[str, dict[TopicPartition, int]] = Answers()
    kafka = requests.kafka
    left = groups
    silent: set[int] = set()
    for pause in (*COORDINATOR_PAUSES, None):
        again: list[str] = []
        sent: list[tuple[int, list[str], Awaitable[Any], Awaitable[Any]]] = [
            (
                node,
                asked,
                kafka.soon(kafka.send, _offsets_request(asked), node),
                kafka.soon(kafka.send, _members_request(asked), node),
            )
            for node, asked in (await _coordinators(requests, left, found)).items()
            if node not in silent
        ]
        for node, asked, offsets, members in sent:
            try:
                response, described = await offsets, await members
            except (KafkaError, OSError) as error:
                found.problems.update(dict.fromkeys(asked, no_answer(node, error)))
                # Kafka names another coordinator once it has noticed that this one is silent.
                silent.update([node] if isinstance(error, (RequestTimedOutError, KafkaTimeoutError)) else ())
                again += asked
                continue
            of = {group.group_id: group for group in described.groups}
            for group in response.groups:
                _read(group, of[group.group_id], found)
        again += [g for g, problem in found.problems.items() if issubclass(for_code(problem.code), RetriableError)]
        if not again or pause is None:
            break
        left = again
        await kafka.sleep(pause)
    return found


async def _coordinators(
    requests: Requests, groups: list[str], found: Answers[str, dict[TopicPartition, int]]
) -> dict[int, list[str]]:
    """Return the groups by coordinator. Always asks: kafka-python's cache keeps coordinators that have moved."""
    from kafka.protocol.metadata import FindCoordinatorRequest

    def request() -> Any:
        return FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=groups, min_version=4)

    by_node: dict[int, list[str]] = {}
    for each in (await requests.send(request)).coordinators:
        if each.error_code:
            found.refuse(each.key, each.error_code, f"group {each.key}")
        else:
            by_node.setdefault(each.node_id, []).append(each.key)
    return by_node


def _read(group: Any, described: Any, found: Answers[str, dict[TopicPartition, int]]) -> None:
    from kafka import TopicPartition

    rows = [(topic.name, each) for topic in group.topics for each in topic.partitions]
    errors = (group.error_code, *(each.error_code for _, each in rows), described.error_code)
    code = next((each for each in errors if each), 0)
    if code:
        found.refuse(group.group_id, code, f"group {group.group_id}")
        return
    found.problems.pop(group.group_id, None)
    committed = {
        TopicPartition(topic, each.partition_index): each.committed_offset
        for topic, each in rows
        if each.committed_offset >= 0
    }
    found[group.group_id] = {**dict.fromkeys(_assigned(described), NO_COMMIT), **committed}


def _offsets_request(groups: list[str]) -> Any:
    from kafka.protocol.consumer import OffsetFetchRequest

    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    # The first version for several groups, and the last without the ids of members.
    return OffsetFetchRequest(groups=wanted, min_version=8, max_version=8)


def _members_request(groups: list[str]) -> Any:
    from kafka.protocol.admin import DescribeGroupsRequest

    # Since version 6 an unknown group is an error, and not one without members.
    return DescribeGroupsRequest(groups=groups, include_authorized_operations=False, max_version=5)


def _assigned(group: Any) -> list[TopicPartition]:
    """Return the partitions that the group's members read now. Unlike offsets, Kafka does not filter them by ACL."""
    from kafka import TopicPartition
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolType

    found: list[TopicPartition] = []
    for member in group.members if group.protocol_type == ConsumerProtocolType else ():
        if not member.member_assignment:
            continue  # it is joining
        try:
            assignment = ConsumerProtocolAssignment.decode(member.member_assignment)
        except Exception as error:  # noqa: BLE001 - the bytes are what some client of any kind sent
            log.debug("What a member of %s reads is not known: %r", group.group_id, error)
            continue
        found += [
            TopicPartition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions
        ]
    return found


# A transaction in another state has no records that are still hidden.
OPEN_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]


@dataclass(frozen=True)
class Transaction:
    """An open transaction.

    :param id: its transactional id.
    :param started: seconds since 1970, by its coordinator's clock.
    :param timeout: seconds after which its coordinator aborts it.
    :param partitions: those that it has written to.
    """

    id: str
    started: float
    timeout: float
    partitions: frozenset[TopicPartition]


async def open_transactions(requests: Requests) -> Answers[int, tuple[Transaction, ...]]:
    """Return the open transactions by coordinator (broker id); all brokers are asked at the same time.

    Kafka silently leaves out those whose transactional id the user may not DESCRIBE.
    """
    from kafka.errors import KafkaError
    from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest

    def list_them(_: int) -> Any:
        return ListTransactionsRequest(state_filters=OPEN_STATES, producer_id_filters=[], min_version=0)

    found: Answers[int, tuple[Transaction, ...]] = Answers()
    asked = await requests.ask_brokers(requests.kafka.brokers(), list_them)
    found.problems.update(asked.problems)
    for node, listed in asked.items():
        ids = [each.transactional_id for each in listed.transaction_states]
        if not ids:
            found[node] = ()
            continue
        try:
            described = await requests.send(partial(DescribeTransactionsRequest, transactional_ids=ids), node)
        except (KafkaError, OSError) as error:
            found.problems[node] = no_answer(node, error)
            continue
        found[node] = tuple(_transaction(each) for each in described.transaction_states if not each.error_code)
    return found


def _transaction(each: Any) -> Transaction:
    from kafka import TopicPartition

    return Transaction(
        each.transactional_id,
        each.transaction_start_time_ms / 1000,
        each.transaction_timeout_ms / 1000,
        frozenset(TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions),
    )
