"""How one query of a driver is: whether it runs, and what keeps it from running. It is a part of the heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.stored import known_fields

# Partitions of a batch that a heartbeat names; the ranges of a query then take some 5 kB of it.
RANGES = 50


class QueryState(str, Enum):
    """The states of a query; a newer driver may have states that are not known here."""

    RUNNING = "running"
    RETRYING = "retrying"  # it has failed, is tried again, and has not got on since
    WAITING = "waiting"  # the storage of its checkpoint, or who says whose that is, does not answer
    LOST = "lost"  # Kafka has lost records that it must read: it is not tried any more, while others of the driver run


@dataclass(frozen=True)
class OffsetRange:
    """The records of one source that a batch was to read.

    :param source: topic and partition, such as ``orders-3``; of another source than Kafka, Spark's name of it.
    :param start: the first offset; empty: not known, as in a first batch.
    :param end: the offset after the last one. For another source than Kafka both are its own JSON.
    """

    source: str
    start: str = ""
    end: str = ""

    def __str__(self) -> str:
        return f"{self.source} from {self.start or '?'} to {self.end or '?'}"


@dataclass(frozen=True)
class QueryHealth:
    """How a query is.

    :param state: see `QueryState`.
    :param seconds: for how long it has been so, by the driver's own clock; of one that runs always 0. A retry counts
        from the first failure after the query last got on.
    :param failures: tries that have failed since.
    :param error: the last error, its class first; at most some hundred characters, without secrets.
    :param cause: what the task, or the function of foreachBatch, raised itself, where `error` does not say it.
    :param batch: the batch that fails; None: not known, or none is planned.
    :param ranges: the records that the batch reads, at most `RANGES` entries; partitions without any are left out.
    :param left_out: entries that were left out of it.
    :param note: what a person should know though the query may run: a log of Kafka ended earlier for a moment.
    :param noted_seconds: how old that is.
    """

    state: str = QueryState.RUNNING.value
    seconds: float = 0.0
    failures: int = 0
    error: str = ""
    cause: str = ""
    batch: int | None = None
    ranges: tuple[OffsetRange, ...] = ()
    left_out: int = 0
    note: str = ""
    noted_seconds: float = 0.0

    @property
    def reads(self) -> str:
        """The records of the batch, for people; empty when they are not known."""
        return read_by(self.ranges, self.left_out)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**vars(self), "ranges": [dict(vars(each)) for each in self.ranges]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> QueryHealth:
        """Return what a heartbeat says; fields that this version does not know are ignored.

        :raises ValueError, TypeError: it is none.
        """
        known = known_fields(cls, data)
        ranges = tuple(OffsetRange(**known_fields(OffsetRange, each)) for each in known.get("ranges", ()))
        return cls(**{**known, "ranges": ranges})


def read_by(ranges: tuple[OffsetRange, ...], left_out: int = 0) -> str:
    """Return the ranges of a batch for people, ``orders-3 from 100 to 250``; empty when there are none."""
    more = f" and {left_out} more" if left_out else ""
    return ", ".join(map(str, ranges)) + more if ranges else ""
