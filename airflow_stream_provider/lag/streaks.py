"""Since when a health has lasted, look after look. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_stream_provider.lag.limits import Health


@dataclass
class Streaks:
    """When the present run of bad, good or unknown looks began (seconds since 1970); None = there is no such run now.

    An unknown look ends neither a bad nor a good run: only the opposite health does.
    """

    bad: float | None = None
    good: float | None = None
    unknown: float | None = None

    def add(self, health: Health, at: float) -> None:
        """Update the runs with the health of one look."""
        if health is Health.UNKNOWN:
            self.unknown = at if self.unknown is None else self.unknown
            return
        self.unknown = None
        if health is Health.FAIL:
            self.bad, self.good = (at if self.bad is None else self.bad), None
        else:
            self.good, self.bad = (at if self.good is None else self.good), None
