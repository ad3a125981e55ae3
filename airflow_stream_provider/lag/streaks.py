"""When a lag that comes and goes is an incident: pure. It opens once, closes once, and keeps its id in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_stream_provider.lag.limits import Health


@dataclass
class Streaks:
    """Since when a stream has been too far behind, well, or not known (seconds since 1970); None = it is not now.

    A look that shows nothing ends neither of the first two: only its opposite does.
    """

    bad: float | None = None
    good: float | None = None
    unknown: float | None = None

    def add(self, health: Health, at: float) -> None:
        """Take in what one look found."""
        if health is Health.UNKNOWN:
            self.unknown = at if self.unknown is None else self.unknown
            return
        self.unknown = None
        if health is Health.FAIL:
            self.bad, self.good = (at if self.bad is None else self.bad), None
        else:
            self.good, self.bad = (at if self.good is None else self.good), None


@dataclass(frozen=True)
class Incident:
    """A time in which a stream was too far behind. `since`: when that began, seconds since 1970."""

    id: str
    since: float

    @classmethod
    def of(cls, name: str, since: float) -> Incident:
        """Return the incident of a stream, or group, that began then: the same again for whoever saw it begin."""
        at = datetime.fromtimestamp(since, UTC)
        return cls(f"{name}-{at:%Y%m%dT%H%M%SZ}", since)

    def to_json(self) -> dict[str, Any]:
        """Return the incident as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Incident:
        """Return the incident again."""
        return cls(str(data["id"]), float(data["since"]))


def incident_now(
    name: str, present: Incident | None, streaks: Streaks, at: float, for_at_least: float
) -> Incident | None:
    """Return the incident that is open at a moment, if any, knowing the one that was open before.

    :param for_at_least: seconds for which it must have been bad to open, and good to close: a lag that wavers around
        its limit is one incident. Neither happens at a look that shows nothing.
    """
    if streaks.unknown is not None:
        return present
    if present is None:
        opens = streaks.bad is not None and at - streaks.bad >= for_at_least
        return Incident.of(name, streaks.bad or at) if opens else None
    closes = streaks.good is not None and at - streaks.good >= for_at_least
    return None if closes else present
