"""The moments up to which a report says exactly whether every record is committed. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Moments:
    """The moments that are searched in Kafka exactly, one request for each; ages without a moment are estimates.

    :param at: moments, in seconds since 1970.
    :param ages: moments relative to the measurement, in seconds before it.
    """

    at: frozenset[float] = frozenset()
    ages: frozenset[float] = frozenset()

    def __or__(self, other: Moments) -> Moments:
        return Moments(self.at | other.at, self.ages | other.ages)

    def __le__(self, other: Moments) -> bool:
        """Return whether a report about `other` says all that is asked here."""
        return self.at <= other.at and self.ages <= other.ages
