"""The samples that the watch of a stream keeps beside its control log, for the command line and for alerts."""

from __future__ import annotations

import contextlib
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from airflow_stream_provider.control.store import Samples
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.report import Ceilings, LagReport, QueryLag
from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.stored import parse_object
from airflow_stream_provider.monitoring.incidents import IncidentState, Stored
from airflow_stream_provider.monitoring.trends import Trace

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QuerySample:
    """The lag of one query: in records and in seconds (None = unknown), Burrow's verdict, and the alarms.

    :param lost: records that Kafka deleted before they were read, as the report tells until the next commit.
    :param lost_ever: the same over all samples.
    :param batch: its last committed batch.
    """

    records: int | None = None
    seconds: float | None = None
    verdict: str = ""
    alarms: tuple[str, ...] = ()
    lost: int = 0
    lost_ever: int = 0
    batch: int | None = None


@dataclass(frozen=True)
class LagSample(Stored):
    """One look of the watch.

    :param at: seconds since 1970.
    :param phase: of the stream, a StreamPhase; `silent` instead of `running` when its driver gives no sign of life.
    :param version: of the release that holds the stream; empty for none.
    :param queries: by name; empty when the lag could not be measured.
    :param health: of the lag, by the limits that the stream's YAML had at this look.
    :param problem: why the lag could not be measured.
    :param incidents: state of each kind of incident.
    :param counters: of the heartbeats, by incarnation.
    :param since: by incarnation, the first look of those in a row that saw the counter as it is, in seconds since 1970;
        also of a holder that has no heartbeat.
    :param moved: by incarnation, the last look that saw a lower counter; none where no look did.
    :param silent_seconds: age of the holder's last sign of life, or of the last holder's; None = unknown.
    :param illegal: records of the control log that break a rule, in all.
    :param illegal_at: the last look that found more of them than the one before; None: none did.
    :param ill: queries that are ill, with their states.
    :param longest_batch_seconds: of the last batches of the holder's queries, the longest; None = unknown.
    :param all_state_bytes: memory of the state of all its queries; None = unknown.
    :param trace: the looks at the driver that holds, for the trends.
    :param runs_out: by name of what runs out, how many seconds are left.
    :param earlier: queries that have lost records, as they were measured last, where this look could not measure.
    """

    at: float
    phase: str = ""
    version: str = ""
    queries: Mapping[str, QuerySample] = field(default_factory=dict)
    health: Health = Health.UNKNOWN
    problem: str = ""
    incidents: Mapping[str, IncidentState] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    silent_seconds: float | None = None
    illegal: int = 0
    since: Mapping[str, float] = field(default_factory=dict)
    moved: Mapping[str, float] = field(default_factory=dict)
    illegal_at: float | None = None
    earlier: Mapping[str, QuerySample] = field(default_factory=dict)
    ill: Mapping[str, str] = field(default_factory=dict)
    longest_batch_seconds: float | None = None
    all_state_bytes: int | None = None
    trace: Trace = field(default_factory=Trace)
    runs_out: Mapping[str, float] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong with the lag as far as it is known.

        Also when the judgement is UNKNOWN though every lag and verdict is known: without DESCRIBE_CONFIGS, say, it is
        unknown only when Kafka deletes unread records.
        """
        known = all(query.records is not None and query.verdict != "UNKNOWN" for query in self.queries.values())
        measured = bool(self.queries) and known and not self.problem
        return self.health is Health.PASS or (self.health is Health.UNKNOWN and measured)

    @property
    def records(self) -> int | None:
        """Largest known lag of a query, in records; None when none is known."""
        return max((q.records for q in self.queries.values() if q.records is not None), default=None)

    @property
    def seconds(self) -> float | None:
        """Age of the oldest record that a query has not committed, in seconds; None when none is known."""
        return max((q.seconds for q in self.queries.values() if q.seconds is not None), default=None)

    @property
    def open_incidents(self) -> dict[str, str]:
        """Ids of the open incidents, by kind."""
        return {kind: state.incident.id for kind, state in self.incidents.items() if state.incident}


def queries_of(
    report: LagReport, ceilings: Ceilings, before: Mapping[str, QuerySample] | None = None
) -> dict[str, QuerySample]:
    """Return the queries of a report as a sample keeps them.

    :param before: of the last sample that has them.
    """
    return {query.query: _sample_of(query, ceilings, (before or {}).get(query.query)) for query in report.queries}


def _sample_of(query: QueryLag, ceilings: Ceilings, before: QuerySample | None) -> QuerySample:
    known, ever = (before.lost, before.lost_ever) if before is not None else (0, 0)
    # With the same batch the report tells of the same losses again, and of those since.
    same = before is not None and before.batch == query.batch and query.lost >= known
    return QuerySample(
        query.records,
        query.seconds,
        query.verdict.value,
        tuple(alarm.value for alarm in query.alarms(ceilings)),
        lost=query.lost,
        lost_ever=ever + query.lost - (known if same else 0),
        batch=query.batch,
    )


def last_queries(samples: Sequence[LagSample]) -> dict[str, QuerySample]:
    """Return each query's last sample; a look that could not measure has none, but those that have lost records."""
    return {name: query for sample in samples for name, query in (*sample.earlier.items(), *sample.queries.items())}


def last(kept: Samples) -> LagSample | None:
    """Return the newest sample, at a cost that does not grow with their number; None when there is none yet.

    :raises ControlUnavailable: the control log cannot be read now.
    """
    return next(_newest(kept), None)


def read(kept: Samples) -> list[LagSample]:
    """Return the samples, oldest first; none when there was no watch yet, or when they are damaged.

    :raises ControlUnavailable: the control log cannot be read now.
    """
    return since(kept, -math.inf)


def since(kept: Samples, at: float) -> list[LagSample]:
    """Return the samples from after a moment (seconds since 1970), oldest first; older ones are not read.

    :raises ControlUnavailable: the control log cannot be read now.
    """
    found = [*takewhile(lambda each: each.at > at, _newest(kept))]
    return list({each.at: each for each in reversed(found)}.values())


def append(kept: Samples, sample: LagSample) -> None:
    """Add a sample, or replace that of the same look: readers take the later one of the same moment.

    :raises ControlUnavailable: the sample may not have been written.
    :raises Damaged: something else has the name of the file.
    """
    kept.add(json.dumps(sample.to_json(), separators=(",", ":")).encode())


def bad_since(samples: Sequence[LagSample], at: float) -> float:
    """Return when the present run of bad samples began, or `at` when the last sample is not bad; seconds since 1970.

    :param samples: oldest first; one that shows nothing of the lag does not end the run.
    """
    since = at
    for sample in reversed(samples):
        if sample.good:
            break
        since = sample.at if sample.health is Health.FAIL else since
    return since


def _newest(kept: Samples) -> Iterator[LagSample]:
    """Yield the samples, the newest first."""
    try:
        for line in kept.newest():
            with contextlib.suppress(ValueError):  # one that was left torn
                yield LagSample.from_json(parse_object(line))
    except Damaged as error:
        # The record of delivered alerts is lost with the samples, so some may be sent twice; failing here would also
        # stop recovery.
        log.warning("The samples of the watch are damaged; starting without them: %s", error)
