"""Offsets that hold no record but the marker of a transaction's end. Pure.

A consumer that commits the offset after the last record that it read (Kafka Connect, Flink, and many others) stays one
offset before the end of a log whose producer uses transactions. Spark commits the end of the log, markers included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.record_batches import RecordBatch
    from airflow_stream_provider.lag.report import PartitionLag

# So many offsets before the end of a log are looked at: one marker, or those of a few empty transactions.
FEW = 5


def may_wait_before_markers(committed: int | None, log_start: int, end: int) -> bool:
    """Return whether all that is not committed, or the one offset that Kafka deleted, may be markers."""
    if committed is None or committed > end:
        return False
    return 0 < end - max(committed, log_start) <= FEW or log_start - committed == 1


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
