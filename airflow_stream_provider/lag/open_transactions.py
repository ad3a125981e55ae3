"""Which transactions hide records of the partitions that are read, and for how long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.transactions import Transaction


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
