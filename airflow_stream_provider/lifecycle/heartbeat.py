"""The heartbeat of a driver: what is too fine for the control log, replaced as a whole about once a second.

Drivers live for months while the provider around them is upgraded, so a heartbeat may be older or newer than its
reader: fields that the reader does not know are ignored, and fields that are missing have the defaults below.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.stored import known_fields, parse_object
from airflow_stream_provider.lifecycle.vitals import Vitals

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


# Bytes. Readers take a larger heartbeat as damaged, and its driver as dead.
HEARTBEAT_LIMIT = 4 * 2**20
# Characters of the message that are kept where something is left out.
MESSAGE_KEPT = 2_000


class DriverPhase(str, Enum):
    """The activity of a driver, in its own words; only the control log says whether it holds the stream."""

    STARTING = "starting"  # the script runs up to its queries
    REHEARSING = "rehearsing"
    STANDBY = "standby"
    RUNNING = "running"
    RELEASING = "releasing"  # stops its queries at their batch boundaries
    ENDED = "ended"


@dataclass(frozen=True)
class Commit:
    """One commit of a query, for those who cannot read its checkpoint.

    :param at: seconds since 1970 by the driver's clock.
    :param offsets: by topic and partition, as text, the next offset to read from Kafka. Empty: only the time is known,
        as of a query that reads very many partitions.
    """

    at: float
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """One batch of a query, by which a release is compared with another.

    :param id: its number.
    :param at: when it was committed, seconds since 1970 by the driver's clock.
    :param seconds: how long it took (``durationMs.triggerExecution``).
    :param rows: rows that it read, as `QueryProgress.input_rows`.
    """

    id: int
    at: float
    seconds: float
    rows: int


@dataclass(frozen=True)
class QueryProgress:
    """How far one query is, from Spark's last StreamingQueryProgress.

    :param name: the query's label.
    :param checkpoint: its checkpoint location, as the script gave it; a path on a remote `fs.defaultFS` as a URL.
    :param sink: kind of its sink, such as ``kafka`` or ``foreachBatch``.
    :param id: Spark's id of the query; empty before its first progress.
    :param batch: number of the last committed batch, also while the query is started again; None until Spark has said
        it since this driver took over. For a query that is idle then, it is an earlier driver's: only `commits` tells
        that this one has committed.
    :param batch_seconds: how long that batch took (``durationMs.triggerExecution``); None when it is not known.
    :param input_rows: rows that it read: of Kafka the offsets that it went through, of others ``numInputRows``.
    :param rows_per_second: those rows by `batch_seconds`; None when it is not known.
    :param triggered_at: when its trigger began, ISO 8601 in UTC, as Spark writes it.
    :param committed: end offsets of each Kafka source, by topic and partition. Empty where the heartbeat would be too
        large with them.
    :param commits: its last commits in this driver, at most ten, oldest first.
    :param ended: whether it has ended for good in this driver: it finished by itself, or the script stopped it.
    :param gap_seconds: from the last commit before this driver took over to its first one, by the times of the commit
        files; None while it is not known.
    :param state_rows: rows in the state of all its stateful operators; None when it is not known, as before the first
        progress, and 0 without state.
    :param state_bytes: memory that this state takes on the executors (``memoryUsedBytes``); None as above.
    :param batches: its last batches in this driver, at most ten, oldest first. Spark is asked once a second: of shorter
        batches some are missing.
    :param failures: how often it has failed, and was started again, since this driver took over; None when it is not
        known.
    :param spark: Spark's last progress itself, for the script of a driver that held before; empty: not known.
    :param rows_exact: whether each row counts once: those of a source other than Kafka, Spark counts once for each
        action of a foreachBatch function. None when it is not known.
    :param begun_at: when this driver first started what the script calls `start()` for last, seconds since 1970; a loop
        that runs a query again and again starts it anew each time. None before.
    :param quiet_seconds: how long it may commit nothing while records wait, by its trigger and its sources' options;
        None when it is not known. See `quiet_until`.
    :param health: whether it runs, and what keeps it from running; None when it is not known.
    """

    name: str
    checkpoint: str = ""
    sink: str = ""
    id: str = ""
    batch: int | None = None
    batch_seconds: float | None = None
    input_rows: int = 0
    rows_per_second: float | None = None
    triggered_at: str = ""
    committed: tuple[Any, ...] = ()
    commits: tuple[Commit, ...] = ()
    ended: bool = False
    gap_seconds: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    batches: tuple[Batch, ...] = ()
    failures: int | None = None
    spark: Mapping[str, Any] = field(default_factory=dict)
    rows_exact: bool | None = None
    begun_at: float | None = None
    quiet_seconds: float | None = None
    health: QueryHealth | None = None

    @property
    def quiet(self) -> float | None:
        """Seconds between two commits that it may let pass by its own promise, whatever waits; None = not known.

        Infinite once it has ended by itself: only the script knows whether and when it runs again.
        """
        return math.inf if self.ended else self.quiet_seconds

    def quiet_until(self, committed_at: float) -> float | None:
        """Return until when it may commit nothing more, seconds since 1970; None = not known.

        :param committed_at: time of its last commit, which an earlier driver or run may have made.
        """
        return None if self.quiet is None else max(committed_at, self.begun_at or 0.0) + self.quiet


@dataclass(frozen=True)
class OffsetsGroupStatus:
    """How the commits to the stream's `offsets_group` go.

    :param at: time of the last commit, seconds since 1970; None before the first one.
    :param problem: why Kafka takes no commits now; empty while it does.
    """

    at: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Heartbeat:
    """One heartbeat of one incarnation.

    :param counter: grows with every heartbeat. Observers watch this number and their own clock, never `at`.
    :param at: seconds since 1970 by the driver's clock; for people.
    :param phase: see DriverPhase; a newer driver may have phases that are not known here.
    :param message: what a person should know of what goes on now.
    :param seq: number of the last record that it has read.
    :param epoch: epoch of the stream at that record.
    :param queries: progress of the queries that it runs.
    :param rehearsal: summary of its rehearsal, empty before.
    :param started_at: when it last started the queries, seconds since 1970; None before.
    :param rewind: what has become of a rewind that was due when it came to hold; empty: none was.
    :param rewind_undone: whether that was left undone for good: people are told.
    :param pid: of the driver's Python.
    :param jvm_pid: of its JVM.
    :param host: where both run.
    :param submission: the cluster's id of the driver; empty when the driver does not know it.
    :param application_id: of the Spark application; empty until the script has a session.
    :param ui_url: of the application's web UI; empty until the script has a session.
    :param executor_hosts: every host on which the application has had executors, and the driver's, as Spark names them,
        some seconds late; None when that is not known. The last heartbeat of a driver that was cut off from the control
        log is older than its end, by its lease and pause at most: where it has had executors since then is not known.
    :param vitals: as they were read last, once a minute; None before, or of a driver without them.
    """

    counter: int = 0
    at: float = 0.0
    phase: str = DriverPhase.STARTING.value
    message: str = ""
    seq: int = 0
    epoch: int = 0
    queries: tuple[QueryProgress, ...] = ()
    offsets_group: OffsetsGroupStatus = OffsetsGroupStatus()
    rehearsal: Mapping[str, Any] = field(default_factory=dict)
    started_at: float | None = None
    rewind: str = ""
    rewind_undone: bool = False
    pid: int | None = None
    jvm_pid: int | None = None
    host: str = ""
    spark_version: str = ""
    submission: str = ""
    application_id: str = ""
    ui_url: str = ""
    executor_hosts: tuple[str, ...] | None = None
    vitals: Vitals | None = None

    def to_json(self) -> bytes:
        """Return the heartbeat as it is stored: one JSON object of at most HEARTBEAT_LIMIT bytes.

        Where it would be larger, as with a hundred queries of hundreds of partitions, it leaves out what most can do
        without, and its message says so.
        """
        data = b""
        for each in self._ever_smaller():
            # Not `asdict`, which copies every offset first and takes ten times as long.
            data = json.dumps(each, default=_fields, sort_keys=True).encode()
            if len(data) <= HEARTBEAT_LIMIT:
                break
        return data

    def _ever_smaller(self) -> Iterator[Heartbeat]:
        yield self

        def without(what: str, queries: tuple[QueryProgress, ...]) -> Heartbeat:
            said = f"Left out, to stay below {HEARTBEAT_LIMIT} bytes: {what}. {self.message[:MESSAGE_KEPT]}"
            return replace(self, queries=queries, message=said.strip())

        queries = tuple(replace(query, spark={}) for query in self.queries)
        yield without("what Spark itself says", queries)
        # The last commit has only its time, like that of a query with very many partitions.
        queries = tuple(replace(q, commits=tuple(Commit(last.at) for last in q.commits[-1:])) for q in queries)
        yield without("the offsets of the last commits", queries)
        yield without("all offsets", tuple(_without_offsets(query) for query in queries))
        last_resort = without("all that is said of the queries", ())
        yield replace(last_resort, rehearsal={}, offsets_group=OffsetsGroupStatus(), vitals=None)

    @classmethod
    def from_json(cls, data: bytes, incarnation: str) -> Heartbeat:
        """Parse a stored heartbeat.

        :raises Damaged: it is not a heartbeat; the message names the incarnation.
        """
        try:
            known = known_fields(cls, parse_object(data))
            known["queries"] = tuple(_query(query) for query in known.get("queries", ()))
            known["vitals"] = Vitals.from_json(known.get("vitals"))
            if known.get("executor_hosts") is not None:
                known["executor_hosts"] = tuple(map(str, known["executor_hosts"]))
            known["offsets_group"] = OffsetsGroupStatus(
                **known_fields(OffsetsGroupStatus, known.get("offsets_group", {}))
            )
            return cls(**known)
        except ValueError as error:
            raise Damaged(
                f"The heartbeat of {incarnation} is not readable: {error}.",
                next_step="A living driver replaces it within a second. If it stays so, look at that driver's log.",
                incarnation=incarnation,
            ) from error

    @property
    def left_undone(self) -> str:
        """The message for people on a rewind that no driver does any more; empty: there is none."""
        return self.rewind if self.rewind_undone else ""

    def query(self, name: str) -> QueryProgress | None:
        """Return the progress of a query, or None when the heartbeat does not mention it."""
        return next((query for query in self.queries if query.name == name), None)


def _fields(part: Any) -> Mapping[str, Any]:
    return part.to_json() if isinstance(part, Vitals) else vars(part)


def _without_offsets(query: QueryProgress) -> QueryProgress:
    health = query.health
    if health is not None:
        health = replace(health, ranges=(), left_out=len(health.ranges) + health.left_out)
    return replace(query, committed=(), health=health)


def _query(data: Mapping[str, Any]) -> QueryProgress:
    known = known_fields(QueryProgress, data)
    if "name" not in known:
        raise ValueError("a query has no name")
    health = known.get("health")
    parts = {
        "health": None if health is None else QueryHealth.from_json(health),
        "committed": tuple(known.get("committed", ())),
        "commits": tuple(map(_commit, known.get("commits", ()))),
        "batches": tuple(map(_batch, known.get("batches", ()))),
    }
    return QueryProgress(**{**known, **parts})


def _batch(data: Mapping[str, Any]) -> Batch:
    known = known_fields(Batch, data)
    if not all(math.isfinite(known.get(name, math.nan)) for name in ("id", "at", "seconds", "rows")):
        raise ValueError("a batch has no number, time or size")
    return Batch(**known)


def _commit(data: Mapping[str, Any]) -> Commit:
    known = known_fields(Commit, data)
    if not math.isfinite(known.get("at", math.nan)):
        raise ValueError("a commit has no time")
    return Commit(**known)
