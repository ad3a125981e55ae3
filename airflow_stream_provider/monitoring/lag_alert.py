"""Fill an alert about a lag with numbers: from a report, and from what the watch measured before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_stream_provider.lag.formatting import count
from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.monitoring.alert import Alert, growth
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind
from airflow_stream_provider.monitoring.samples import LagSample, bad_since, last_queries, queries_of


def lag_alert(
    name: str,
    look: LagLook,
    samples: Sequence[LagSample],
    limits: LagLimits,
    *,
    open: bool = True,
    incident: Incident | None = None,
    reason: str = "",
    links: Mapping[str, str] | None = None,
) -> Alert:
    """Return the alert about a lag.

    :param samples: of the stream's watch, oldest first; the growth is computed from them.
    :param incident: default: one that began with the present run of bad samples.
    :param reason: used where the limits find nothing wrong, because somebody else did, with other limits.
    """
    judgement = limits.judge(look.report) if look.report else None
    if judgement is not None and judgement.health is not Health.PASS:
        reasons = judgement.reasons
    else:
        reasons = tuple(filter(None, (look.problem or reason,)))
    if not open and incident is not None:
        # It is within its limits again; what was lost in the meantime stays lost.
        reasons = (*reasons, *_losses(samples, look, incident.since))
    incident = incident or Incident.of(name, bad_since(samples, look.at))
    report = look.report
    records = report.records if report else None
    deletions = [q.retention_seconds for q in report.queries if q.retention_seconds is not None] if report else []
    return Alert(
        stream=name,
        kind=IncidentKind.LAG,
        incident=incident.id,
        open=open,
        since=incident.since,
        at=look.at,
        reasons=reasons,
        records=records,
        seconds=report.seconds if report else None,
        growth=growth([*((sample.at, sample.records) for sample in samples), (look.at, records)]),
        deleted_in=min(deletions, default=None),
        links=links or {},
    )


def _losses(samples: Sequence[LagSample], look: LagLook, since: float) -> list[str]:
    """Say how many records Kafka has deleted before they were read since an incident began."""
    before = last_queries([sample for sample in samples if sample.at < since])
    now = last_queries(samples)
    if look.report is not None:
        now |= queries_of(look.report, Ceilings(), now)
    lost = {name: query.lost_ever - (before[name].lost_ever if name in before else 0) for name, query in now.items()}
    return [
        f"{name}: Kafka has deleted {count(records, 'record')} before they were read; they are lost."
        for name, records in lost.items()
        if records > 0
    ]
