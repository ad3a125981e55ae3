"""The last samples of a stream's lag and health, kept by its watch beside the log: for the UI, the CLI and alerts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lag.report import Ceilings, LagReport
from airflow_stream_provider.monitoring.incidents import IncidentState

log = logging.getLogger(__name__)

# At one a minute: eight hours, and about 100 KB for each query.
KEPT = 500


@dataclass(frozen=True)
class QuerySample:
    """One query: records and seconds behind (None = not known), Burrow's verdict, and the alarms beside it."""

    records: int | None = None
    seconds: float | None = None
    verdict: str = ""
    alarms: tuple[str, ...] = ()


@dataclass(frozen=True)
class LagSample:
    """One look of the watch.

    `at`: seconds since 1970. `phase`: of the stream (see StreamPhase). `version`: of the release that holds; empty for
    none. `queries`: by name; empty when the lag could not be measured, and `problem` says why. `troubles`: by kind, how
    it stands with what may be wrong. `counters`: of the heartbeats, by incarnation.
    """

    at: float
    phase: str = ""
    version: str = ""
    queries: Mapping[str, QuerySample] = field(default_factory=dict)
    problem: str = ""
    incidents: Mapping[str, IncidentState] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def records(self) -> int | None:
        """Lag of the slowest query; None when none is known."""
        return max((q.records for q in self.queries.values() if q.records is not None), default=None)

    @property
    def seconds(self) -> float | None:
        """Age of the oldest record that some query has not committed; None when none is known."""
        return max((q.seconds for q in self.queries.values() if q.seconds is not None), default=None)

    @property
    def open_incidents(self) -> dict[str, str]:
        """What is wrong, by kind of trouble: the id that its alerts carry."""
        return {kind: trouble.incident.id for kind, trouble in self.incidents.items() if trouble.incident}

    def to_json(self) -> dict[str, Any]:
        """Return the sample as a JSON object."""
        return {
            "at": self.at,
            "phase": self.phase,
            "version": self.version,
            "queries": {name: asdict(query) for name, query in self.queries.items()},
            "problem": self.problem,
            "incidents": {kind: trouble.to_json() for kind, trouble in self.incidents.items()},
            "counters": dict(self.counters),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LagSample:
        """Return the sample again; fields that this version does not know are ignored."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        queries = {name: _query(query) for name, query in data.get("queries", {}).items()}
        incidents = {kind: IncidentState.from_json(trouble) for kind, trouble in data.get("incidents", {}).items()}
        return cls(**{**known, "queries": queries, "incidents": incidents})


def queries_of(report: LagReport, ceilings: Ceilings) -> dict[str, QuerySample]:
    """Return what a sample says of a report's queries."""
    return {
        query.query: QuerySample(
            query.records, query.seconds, query.verdict.value, tuple(alarm.value for alarm in query.alarms(ceilings))
        )
        for query in report.queries
    }


def read(store: Store) -> list[LagSample]:
    """Return the samples, oldest first; none when nobody watched yet, or when a crash has left a damaged file.

    :raises ControlUnavailable: they cannot be read now.
    """
    data = store.samples()
    if data is None:
        return []
    try:
        return [LagSample.from_json(sample) for sample in json.loads(data)["samples"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # What was told is forgotten with them; that nobody brings the stream back would be worse.
        log.warning("The samples of the watch are damaged and begin anew: %s", error)
        return []


def append(store: Store, sample: LagSample) -> None:
    """Add a sample; only the last 500 are kept.

    One writer at a time: of two at once, one's sample may be lost, never the others.

    :raises ControlUnavailable: it was not written, or is not known to be.
    """
    kept = [*read(store), sample][-KEPT:]
    store.put_samples(json.dumps({"samples": [each.to_json() for each in kept]}).encode())


def _query(data: Mapping[str, Any]) -> QuerySample:
    known = {f.name: data[f.name] for f in fields(QuerySample) if f.name in data}
    return QuerySample(**{**known, "alarms": tuple(known.get("alarms", ()))})
