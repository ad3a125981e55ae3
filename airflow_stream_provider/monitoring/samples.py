"""The samples that the watch of a stream keeps beside its control log, for the command line and for alerts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.report import Ceilings, LagReport, QueryLag
from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.stored import known_fields, parse_object
from airflow_stream_provider.monitoring.incidents import IncidentState, check_time

log = logging.getLogger(__name__)

# With one look a minute: eight hours, and about 100 KB for each query.
KEPT = 500


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
class LagSample:
    """One look of the watch.

    :param at: seconds since 1970.
    :param phase: of the stream, a StreamPhase; `silent` instead of `running` when its driver gives no sign of life.
    :param version: of the release that holds the stream; empty for none.
    :param queries: by name; empty when the lag could not be measured.
    :param health: of the lag, by the limits that the stream's YAML had at this look.
    :param problem: why the lag could not be measured.
    :param incidents: state of each kind of incident.
    :param counters: of the heartbeats, by incarnation.
    :param silent_seconds: age of the holder's last sign of life, or of the last holder's; None = unknown.
    :param illegal: records of the control log that break a rule, in all.
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

    def to_json(self) -> dict[str, Any]:
        """Return the sample as a JSON object."""
        return {
            "at": self.at,
            "phase": self.phase,
            "version": self.version,
            "queries": {name: asdict(query) for name, query in self.queries.items()},
            "health": self.health.value,
            "problem": self.problem,
            "incidents": {kind: state.to_json() for kind, state in self.incidents.items()},
            "counters": dict(self.counters),
            "silent_seconds": self.silent_seconds,
            "illegal": self.illegal,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LagSample:
        """Return the sample that `to_json` wrote; fields that this version does not know are ignored.

        :raises ValueError, KeyError, TypeError, AttributeError: it is none.
        """
        known = known_fields(cls, data)
        check_time(known.get("at", 0.0))
        if not all(isinstance(count, int) for count in known.get("counters", {}).values()):
            raise ValueError("a counter is no number")
        queries = {name: _query(query) for name, query in data.get("queries", {}).items()}
        incidents = {kind: IncidentState.from_json(state) for kind, state in data.get("incidents", {}).items()}
        health = Health(data.get("health", Health.UNKNOWN))
        return cls(**{**known, "queries": queries, "health": health, "incidents": incidents})


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
    """Return each query's last sample; a look that could not measure has none."""
    return {name: query for sample in samples for name, query in sample.queries.items()}


def read(store: Store) -> list[LagSample]:
    """Return the samples, oldest first; none when there was no watch yet, or when the file is damaged.

    :raises ControlUnavailable: the control folder cannot be read now.
    """
    try:
        data = store.samples()
        if data is None:
            return []
        return [LagSample.from_json(sample) for sample in parse_object(data)["samples"]]
    except (Damaged, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        # The record of delivered alerts is lost with the samples, so some may be sent twice; failing here would also
        # stop recovery.
        log.warning("The samples of the watch are damaged; starting without them: %s", error)
        return []


def append(store: Store, sample: LagSample) -> None:
    """Add a sample; only the last 500 are kept.

    Of two writers at a time, one may lose its own sample; older samples are never lost.

    :raises ControlUnavailable: the sample may not have been written.
    """
    kept = [*read(store), sample][-KEPT:]
    store.put_samples(json.dumps({"samples": [each.to_json() for each in kept]}).encode())


def amend(store: Store, sample: LagSample) -> None:
    """Replace the sample of the same look, which now says which alerts were delivered.

    :raises ControlUnavailable: it may not have been replaced; the alerts are then delivered again.
    """
    kept = [sample if each.at == sample.at else each for each in read(store)]
    store.put_samples(json.dumps({"samples": [each.to_json() for each in kept]}).encode())


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


def _query(data: Mapping[str, Any]) -> QuerySample:
    known = known_fields(QuerySample, data)
    return QuerySample(**{**known, "alarms": tuple(known.get("alarms", ()))})
