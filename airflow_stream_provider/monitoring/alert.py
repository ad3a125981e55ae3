"""What a person is told of a lag: what, since when, how fast it grows, how it will end, and where to look. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from airflow_stream_provider.lag.formatting import count, duration

# The pace is that of the last quarter of an hour: older samples tell of another time of the day.
PACE_SECONDS = 900.0


@dataclass(frozen=True)
class LagAlert:
    """A lag that has become bad, or is good again.

    `stream`: name of the stream, or of the consumer group. `open`: False when it is over. `incident`: the same id in
    both. `since`, `at`: seconds since 1970. `reasons`: sentences. `records`, `seconds`: how far it is behind.
    `growth`: records a second, negative while it catches up. `deleted_in`: seconds until Kafka deletes what it has not
    read. `links`: addresses by label. What is not known is None.

    Templates of Airflow's notifiers find it as `alert`: ``{{ alert.subject }}``, ``{{ alert.text }}``.
    """

    stream: str
    incident: str
    since: float
    at: float
    open: bool = True
    reasons: tuple[str, ...] = ()
    records: int | None = None
    seconds: float | None = None
    growth: float | None = None
    deleted_in: float | None = None
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def caught_up_in(self) -> float | None:
        """Seconds until nothing waits any more, at this pace; None when it does not catch up, or is not known."""
        if self.records is None or self.growth is None:
            return None
        if self.records == 0:
            return 0.0
        return self.records / -self.growth if self.growth < 0 else None

    @property
    def subject(self) -> str:
        """One line."""
        if not self.open:
            return f"{self.stream} keeps up with Kafka again"
        if self.records is None:
            return f"{self.stream}: how far it is behind Kafka is not known"
        return f"{self.stream} is behind Kafka: {count(self.records, 'record')}, {duration(self.seconds)}"

    @property
    def text(self) -> str:
        """The whole message, some lines of plain text."""
        lines = [*(self.reasons if self.open else ("It is within its limits again.",))]
        lines.append(
            f"Since: {_clock(self.since)} ({duration(self.at - self.since)} {'ago' if self.open else 'long'})."
        )
        if self.open:
            lines += [f"Pace: {self.pace}.", f"Outlook: {self.outlook}."]
        lines += [f"{label}: {address}" for label, address in self.links.items()]
        lines += [f"Look: airflow streams lag {self.stream}"] if self.open else []
        return "\n".join([*lines, f"Incident: {self.incident}"])

    @property
    def pace(self) -> str:
        """How fast it grows."""
        if self.growth is None:
            return "not known"
        a_minute = round(abs(self.growth) * 60)
        if a_minute == 0:
            return "neither growing nor shrinking"
        return f"{'growing' if self.growth > 0 else 'shrinking'} by {count(a_minute, 'record')} a minute"

    @property
    def outlook(self) -> str:
        """How it will end."""
        ends = self.caught_up_in
        deleted = self.deleted_in
        if deleted is not None and (ends is None or ends > deleted):
            when = "is deleting" if deleted == 0 else f"will delete, from {_clock(self.at + deleted)} on,"
            return (
                f"Kafka {when} records that it has not read ({duration(deleted)} left); make retention.ms longer first"
            )
        if ends is not None:
            return f"caught up at about {_clock(self.at + ends)} ({duration(ends)} left)"
        return "not known" if self.growth is None else "it does not catch up at this pace"


def growth(points: Sequence[tuple[float, int | None]]) -> float | None:
    """Return how fast a lag grows, in records a second: the slope of the line through the points of the last 15 min.

    :param points: time in seconds and records (None = not known), oldest first.
    """
    if not points:
        return None
    known = [(at, records) for at, records in points if records is not None and at >= points[-1][0] - PACE_SECONDS]
    if len(known) < 2:
        return None
    middle = sum(at for at, _ in known) / len(known)
    spread = sum((at - middle) ** 2 for at, _ in known)
    return sum((at - middle) * records for at, records in known) / spread if spread else None


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
