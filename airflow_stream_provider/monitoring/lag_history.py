"""What the samples of a stream's watch say by its limits. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import GroupVerdict
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample


def health_of(sample: LagSample, limits: LagLimits) -> Health:
    """Return what is to be said of a sample: less exact than of the report that it was made of."""
    if any(_beyond(query, limits) for query in sample.queries.values()):
        return Health.FAIL
    known = all(
        query.records is not None and query.verdict != GroupVerdict.UNKNOWN for query in sample.queries.values()
    )
    return Health.PASS if sample.queries and known and not sample.problem else Health.UNKNOWN


def bad_since(samples: Sequence[LagSample], limits: LagLimits, at: float) -> float:
    """Return when the run of bad samples at the end began, `at` when the last one is not bad (seconds since 1970).

    :param samples: oldest first; those that show nothing do not end the run.
    """
    since = at
    for sample in reversed(samples):
        health = health_of(sample, limits)
        if health is Health.PASS:
            break
        since = sample.at if health is Health.FAIL else since
    return since


def _beyond(query: QuerySample, limits: LagLimits) -> bool:
    many = limits.max_records is not None and query.records is not None and query.records > limits.max_records
    late = limits.max_seconds is not None and query.seconds is not None and query.seconds > limits.max_seconds
    return many or late or query.verdict == GroupVerdict.ERR or bool(query.alarms)
