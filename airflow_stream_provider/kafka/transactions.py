"""Ask the transaction coordinators which transactions are open, and since when (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.answers import Answers, no_answer
from airflow_stream_provider.kafka.requests import Requests

if TYPE_CHECKING:
    from kafka import TopicPartition

# A transaction in another state has no records that are still hidden.
STATES = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]


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
        return ListTransactionsRequest(state_filters=STATES, producer_id_filters=[], min_version=0)

    found: Answers[int, tuple[Transaction, ...]] = Answers()
    asked = await requests.ask_brokers(requests.brokers(), list_them)
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
