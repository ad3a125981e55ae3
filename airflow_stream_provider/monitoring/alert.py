"""The message that people get about an incident: what is wrong, since when, how it will go on, where to look. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape

from airflow_stream_provider.lag.limits import Health, LagLimits, LagLook
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lifecycle.texts import count, duration
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, IncidentState
from airflow_stream_provider.monitoring.samples import LagSample, bad_since, last_queries, queries_of

# The pace is that of the last quarter of an hour: older samples may be of another time of day.
PACE_SECONDS = 900.0
# Within it, the pace is that since its last bend, such as the death of a driver, where a line with a bend fits so much
# better than a straight one. A saw-tooth has none that does.
BEND = 0.1
# A moment more than ten years away is no outlook: a lag that stands still shrinks by the rounding of its slope, and
# some topics keep their records for a `retention.ms` of 2^63 - 1.
NEVER_SECONDS = 10 * 365 * 86400.0
# A subject is a header of a mail, or a line on a phone.
SUBJECT_LENGTH = 200
# Their present state is what a person looks at; of the others, what has happened.
_COMMANDS = {IncidentKind.LAG: "lag", IncidentKind.LAG_UNKNOWN: "lag", IncidentKind.QUERY: "status"}


@dataclass(frozen=True)
class Alert:
    """An incident that has opened or closed.

    Templates of Airflow's notifiers find it as `alert`: ``{{ alert.subject }}``, ``{{ alert.text }}``, and for HTML
    ``{{ alert.html }}``: the text quotes scripts, Spark and Kafka, and Airflow's templates escape nothing.

    :param stream: name of the stream, of the consumer group, or of what many streams need: ``Kafka kafka_default``.
    :param kind: see `IncidentKind`.
    :param incident: id; the same when it opens and when it closes.
    :param open: True when the incident has opened, False when it is over; of an upgrade, True when somebody has to act.
    :param since: when the incident began, seconds since 1970.
    :param at: time of the look, seconds since 1970.
    :param reasons: what is wrong, or was; sentences.
    :param records: of a lag, how many records it is behind; None = unknown, as for the other numbers.
    :param seconds: of a lag, age of the oldest record that is not committed.
    :param growth: of a lag, records a second; negative while it catches up.
    :param deleted_in: of a lag, seconds until Kafka deletes unread records.
    :param links: web addresses by label.
    """

    stream: str
    kind: str
    incident: str
    open: bool
    since: float
    at: float
    reasons: tuple[str, ...] = ()
    records: int | None = None
    seconds: float | None = None
    growth: float | None = None
    deleted_in: float | None = None
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """One line, of at most 200 characters."""
        # A reason may quote a traceback; mail refuses a subject of several lines.
        line = " ".join(self._subject.split())
        return line if len(line) <= SUBJECT_LENGTH else f"{line[: SUBJECT_LENGTH - 1]}…"

    @property
    def text(self) -> str:
        """The whole message, some lines of plain text."""
        lines = self._lag_lines if self.kind == IncidentKind.LAG else self._lines
        lines += [f"{label}: {address}" for label, address in self.links.items()]
        if self.open and not IncidentKind(self.kind).shared:
            command = _COMMANDS.get(IncidentKind(self.kind), "history")
            lines.append(f"Look: airflow streams {command} {self.stream}")
        return "\n".join([*lines, f"Incident: {self.incident}"])

    @property
    def html(self) -> str:
        """The whole message as HTML, with everything in it escaped."""
        return f"<pre>{escape(self.text)}</pre>"

    @property
    def caught_up_in(self) -> float | None:
        """Seconds until no record is left to read, at this pace; None when it does not catch up, or is unknown."""
        if self.records is None or self.growth is None:
            return None
        if self.records == 0:
            return 0.0
        left = self.records / -self.growth if self.growth < 0 else NEVER_SECONDS
        return left if left < NEVER_SECONDS else None

    @property
    def pace(self) -> str:
        """How fast the lag grows, for people."""
        if self.growth is None:
            return "unknown"
        a_minute = round(abs(self.growth) * 60)
        if a_minute == 0:
            return "neither growing nor shrinking"
        return f"{'growing' if self.growth > 0 else 'shrinking'} by {count(a_minute, 'record')} a minute"

    @property
    def outlook(self) -> str:
        """When the stream will have caught up, or when Kafka will delete unread records, for people."""
        caught_up = self.caught_up_in
        deleted = self.deleted_in
        if deleted is not None and deleted < NEVER_SECONDS and (caught_up is None or caught_up > deleted):
            when = "is deleting" if deleted == 0 else f"will delete, from {_clock(self.at + deleted)} on,"
            return f"Kafka {when} unread records ({duration(deleted)} left); raise the topic's retention first"
        if caught_up is not None:
            return f"caught up at about {_clock(self.at + caught_up)} ({duration(caught_up)} left)"
        return "unknown" if self.growth is None else "it does not catch up at this pace"

    @property
    def _subject(self) -> str:
        if self.kind == IncidentKind.LAG:
            return self._lag_subject
        if self.open or self.kind == IncidentKind.UPGRADE:
            return f"{self.stream}: {' '.join(self.reasons)}"
        if self.kind == IncidentKind.FINISHED:
            return f"{self.stream}: somebody has stopped or started it since its script ended"
        what = f"The watch of {self.stream} works" if self.kind == IncidentKind.WATCH else f"{self.stream} is well"
        return f"{what} again"

    @property
    def _lines(self) -> list[str]:
        lasted, reasons = duration(self.at - self.since), " ".join(self.reasons)
        if self.kind == IncidentKind.UPGRADE:
            return [reasons]
        if not self.open:
            return [f"It is over, after {lasted}: {reasons}"]
        # A stream that was found down just now has been so for an unknown time; the reason says how old its last sign
        # is.
        return [reasons, f"For {lasted}."] if self.at > self.since else [reasons]

    @property
    def _lag_subject(self) -> str:
        if not self.open:
            return f"{self.stream} keeps up with Kafka again"
        if self.records is None:
            return f"{self.stream}: its lag behind Kafka is unknown"
        return f"{self.stream} is behind Kafka: {count(self.records, 'record')}, {duration(self.seconds)}"

    @property
    def _lag_lines(self) -> list[str]:
        lasted = duration(self.at - self.since)
        if not self.open:
            return ["It is within its limits again.", *self.reasons, f"Since: {_clock(self.since)} (for {lasted})."]
        since = f"Since: {_clock(self.since)} ({lasted} ago)."
        return [*self.reasons, since, f"Pace: {self.pace}.", f"Outlook: {self.outlook}."]


def growth(points: Sequence[tuple[float, int | None]]) -> float | None:
    """Return how fast a lag grows now, in records a second: the slope of its regression line since its last bend.

    :param points: time in seconds and records (None = unknown), oldest first; the last 15 minutes count.
    """
    if not points:
        return None
    known = [(at, records) for at, records in points if records is not None and at >= points[-1][0] - PACE_SECONDS]
    slope, error = _line(known)
    # Each part has three points, so that a line can miss one; the point of the bend is in both.
    bends = ((_line(known[:n]), _line(known[n - 1 :])) for n in range(3, len(known) - 1))
    first, last = min(bends, key=lambda parts: parts[0][1] + parts[1][1], default=((None, error), (slope, 0.0)))
    return last[0] if first[1] + last[1] < BEND * error else slope


def _line(points: Sequence[tuple[float, int]]) -> tuple[float | None, float]:
    """Return the slope of the regression line through these points, and the sum of its squared errors."""
    middle = sum(at for at, _ in points) / (len(points) or 1)
    spread = sum((at - middle) ** 2 for at, _ in points)
    if not spread:
        return None, 0.0
    mean = sum(records for _, records in points) / len(points)
    slope = sum((at - middle) * records for at, records in points) / spread
    return slope, sum((records - mean - slope * (at - middle)) ** 2 for at, records in points)


def pending_alerts(
    stream: str, incidents: Mapping[str, IncidentState], at: float, recipients: Iterable[str]
) -> list[tuple[Alert, list[str]]]:
    """Return the alerts that some recipients have not received, each with those recipients.

    The end of an incident comes before the opening of the next one of the same kind.
    """
    names = list(recipients)
    pending = []
    for kind, state in incidents.items():

        def alert(incident: Incident, *, open: bool, kind: str = kind, state: IncidentState = state) -> Alert:
            return Alert(stream, kind, incident.id, open, incident.since, at, (state.description,))

        behind = {
            name: state.acknowledged.get(name) for name in names if state.acknowledged.get(name) != state.incident
        }
        present = state.incident.id if state.incident else ""
        for over in dict.fromkeys(incident for incident in behind.values() if incident and incident.id != present):
            pending.append((alert(over, open=False), [name for name, known in behind.items() if known == over]))
        if state.incident is not None and behind:
            pending.append((alert(state.incident, open=True), list(behind)))
    return pending


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


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
