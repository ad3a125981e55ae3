"""Transactions in the partitions that are read: open ones that hide records, and the markers of ended ones. Pure.

A consumer that commits the offset after the last record that it read (Kafka Connect, Flink, and many others) stays one
offset before the end of a log whose producer uses transactions. Spark commits the end of the log, markers included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.coordinators import Transaction
    from airflow_stream_provider.kafka.records import RecordBatch
    from airflow_stream_provider.lag.report import PartitionLag


@dataclass(frozen=True)
class Hiding:
    """The transaction that hides records; `seconds` is 0 when none does, None when it is unknown since when.

    The other fields are those of `QueryLag` (`held_timeout`, `held_by`, `problem`).
    """

    seconds: float | None = 0.0
    timeout: float = 900.0
    by: str = ""
    problem: str = ""


class OpenTransactions:
    """The open transactions at one moment.

    :param at: seconds since 1970.
    :param over: partitions where the transaction that hid records has ended meanwhile.
    :param problem: why some brokers did not say which are open; empty when all did.
    """

    def __init__(
        self,
        at: float,
        transactions: Iterable[Transaction] = (),
        over: Iterable[TopicPartition] = (),
        problem: str = "",
    ) -> None:
        self._at = at
        self._over = set(over)
        self._problem = problem
        self._by_partition: dict[TopicPartition, list[Transaction]] = {}
        for transaction in transactions:
            for partition in transaction.partitions:
                self._by_partition.setdefault(partition, []).append(transaction)

    def knows(self, partition: TopicPartition) -> bool:
        """Return whether an open transaction is known that writes to a partition."""
        return partition in self._by_partition

    def hiding(self, partitions: Sequence[TopicPartition]) -> Hiding:
        """Return the transaction that hides records of these partitions: the longest beyond its own timeout.

        A partition whose hidden records belong to no transaction that is known makes it unknown. Records' own times say
        nothing: they may be those of events long ago.
        """
        found = {each for tp in partitions for each in self._by_partition.get(tp, ())}
        worst = max(found, key=lambda each: self._at - each.started - each.timeout, default=None)
        if worst is not None and self._at - worst.started > worst.timeout:
            return self._hiding(worst)
        for tp in partitions:
            if not self.knows(tp) and tp not in self._over:
                problem = self._problem or (
                    f"A transaction hides records of partition {tp.partition} of the topic {tp.topic}, and no "
                    "coordinator names it: it hangs, or the connection's user may not DESCRIBE its transactional id."
                )
                return Hiding(None, problem=problem)
        return Hiding() if worst is None else self._hiding(worst)

    def _hiding(self, transaction: Transaction) -> Hiding:
        return Hiding(max(0.0, self._at - transaction.started), transaction.timeout, transaction.id)


# So many offsets before the end of a log are looked at: one marker, or those of a few empty transactions.
MOST_MARKERS = 5


def may_wait_before_markers(committed: int | None, log_start: int, end: int) -> bool:
    """Return whether all that is not committed, or the one offset that Kafka deleted, may be markers."""
    if committed is None or committed > end:
        return False
    return 0 < end - max(committed, log_start) <= MOST_MARKERS or log_start - committed == 1


def pass_markers(partition: PartitionLag, batches: Sequence[RecordBatch] | None) -> None:
    """Count the markers behind the committed offset as committed.

    :param partition: one that `may_wait_before_markers`.
    :param batches: of the log, from the partition's position or before; None when they cannot be read, and then each
        offset counts as a record.
    """
    if partition.lost == 1:
        _judge_loss(partition, batches)
    position = partition.position or 0
    for batch in batches or ():
        if batch.last >= position:
            if not batch.control:
                break
            position = batch.last + 1
            partition.markers = position - (partition.committed or 0)


def _judge_loss(partition: PartitionLag, batches: Sequence[RecordBatch] | None) -> None:
    """Say of the one offset that Kafka deleted whether it was a record.

    Before a new transaction it was the marker of the last one: a record would have had its own marker behind it.
    """
    if partition.log_start == partition.end or (batches and batches[0].control):
        partition.loss_known = False
    elif batches and batches[0].transactional:
        partition.markers = 1
