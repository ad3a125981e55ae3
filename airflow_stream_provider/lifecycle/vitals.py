"""The vitals of a driver: what runs out in weeks, and where a batch's time goes. Once a minute in the heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.lifecycle.stored import known_fields


@dataclass(frozen=True)
class QueryVitals:
    """The vitals of one query; None: not known. Spark is asked once a second: of shorter batches some are missing.

    :param durations: milliseconds by Spark's name of the part (`durationMs`), the median of the last data batches.
    :param batches: how many batches these are, at most 20.
    :param records: their median number of records, by the offsets where these tell.
    :param rows: their median `numInputRows`, which counts each action of a foreachBatch function.
    :param full: share of them with at least 95 % of `maxOffsetsPerTrigger`.
    :param behind: records that the last batch left in Kafka.
    :param fit: seconds of a batch without records and seconds for each record, by least squares over these batches.
    :param best_rate: records a second in the best full batch of this driver.
    :param arriving: records that come in a second.
    :param empty_share: share of the looks, one a second, that found a trigger without data.
    :param tasks: of the largest of the last stages that are over.
    :param task_p50: seconds of its median task.
    :param task_max: seconds of its longest task.
    :param stage_seconds: how long it took.
    :param state_rows: rows of the state.
    :param state_bytes: memory of the state on the executors.
    :param state_partitions: partitions of the state, of its largest operator.
    :param state_commit_ms: median milliseconds in which the state was committed, the sum over its tasks.
    :param late_rows: rows that the watermark dropped in this driver.
    :param sink_log_bytes: size of the log of Spark's file sink.
    :param checkpoint_bytes: size of the checkpoint. Both only of a folder and of HDFS, which give it in one call.
    """

    durations: Mapping[str, float] = field(default_factory=dict)
    batches: int = 0
    records: float | None = None
    rows: float | None = None
    full: float | None = None
    behind: int | None = None
    fit: tuple[float, ...] | None = None
    best_rate: float | None = None
    arriving: float | None = None
    empty_share: float | None = None
    tasks: int | None = None
    task_p50: float | None = None
    task_max: float | None = None
    stage_seconds: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    state_partitions: int | None = None
    state_commit_ms: float | None = None
    late_rows: int | None = None
    sink_log_bytes: int | None = None
    checkpoint_bytes: int | None = None


@dataclass(frozen=True)
class Vitals:
    """The vitals of a driver; None: not known.

    :param at: when they were read, seconds since 1970 by the driver's clock.
    :param heap_after_gc: bytes that the last collection of the whole heap left. Spark asks for one every half an hour.
    :param heap_max: bytes that the heap may have.
    :param gc_share: share of the time since the vitals before in which the heap was collected.
    :param rss: bytes of memory of the JVM.
    :param log_bytes: size of the driver's standard output and error, where those are files.
    :param log_free: bytes that are free on their disk.
    :param local_free: bytes that are free on the disk of `spark.local.dir`, the least of several.
    :param executors: how many there are now.
    :param executors_started: how many Spark remembers since the driver's start.
    :param executors_lost: how many of them are gone, by Spark's reason.
    :param executor_memory: bytes of heap of all executors together; on a driver without any, its own.
    :param tasks_failed: failed tasks on all of them.
    :param events_dropped: events that Spark's listeners were too slow for.
    :param cores: of the executors.
    :param certificate_until: when the first certificate in a key store of a Kafka source ends, seconds since 1970.
    :param token_until: the same of the delegation tokens; they cannot be renewed beyond it.
    :param queries: by name.
    """

    at: float = 0.0
    heap_after_gc: int | None = None
    heap_max: int | None = None
    gc_share: float | None = None
    rss: int | None = None
    log_bytes: int | None = None
    log_free: int | None = None
    local_free: int | None = None
    executors: int | None = None
    executors_started: int | None = None
    executors_lost: Mapping[str, int] = field(default_factory=dict)
    executor_memory: int | None = None
    tasks_failed: int | None = None
    events_dropped: int | None = None
    cores: int | None = None
    certificate_until: float | None = None
    token_until: float | None = None
    queries: Mapping[str, QueryVitals] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return them as a JSON object, without what is not known: they are written once a second."""
        queries = {name: _known(each) for name, each in self.queries.items()}
        return {**_known(self), "queries": queries}

    @classmethod
    def from_json(cls, data: Any) -> Vitals | None:
        """Return what a heartbeat says; None where it says nothing that this version understands.

        A driver lives whatever its vitals are.
        """
        try:
            known = known_fields(cls, data)
            queries = {name: _query(each) for name, each in known.get("queries", {}).items()}
            return cls(**{**known, "queries": queries})
        except (ValueError, TypeError, AttributeError):
            return None


def _known(part: Vitals | QueryVitals) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if value not in (None, {})}


def _query(data: Mapping[str, Any]) -> QueryVitals:
    known = known_fields(QueryVitals, data)
    if known.get("fit") is not None:
        known["fit"] = tuple(map(float, known["fit"]))
    return QueryVitals(**known)
