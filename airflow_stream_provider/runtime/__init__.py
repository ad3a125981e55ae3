"""Runs inside the Spark driver, around the user's unmodified script. Standard library and pyspark only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Hold:
    """The hold of this driver, for its sinks.

    :param control: the id of its control log.
    :param epoch: of this hold in that log.
    :param incarnation: this driver.
    :param lease_seconds: for so long it may not be heard of.
    """

    control: str
    epoch: int
    incarnation: str
    lease_seconds: float


@dataclass(frozen=True)
class Managed:
    """A driver that the launcher has started, for sinks.

    :param stream: name of its stream.
    :param hold: returns the hold; None while this driver does not hold its stream.
    """

    stream: str
    hold: Callable[[], Hold | None]


# Set by the launcher.
managed: Managed | None = None
# True while the driver rehearses.
_rehearsing = False


def rehearsing() -> bool:
    """Return whether a rehearsal is running in this driver.

    A foreachBatch function that the spec calls safe for rehearsals can ask this before it writes.
    """
    return _rehearsing
