"""Fill an alert about a lag with numbers: from a report, and from what the watch measured before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.monitoring.alert import Alert, growth
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind
from airflow_stream_provider.monitoring.samples import LagSample, bad_since


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
