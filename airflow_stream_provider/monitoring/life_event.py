"""One event of a stream's life, as its control log tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class What(StrEnum):
    """The kinds of events."""

    DEPLOYED = "deployed"  # a release was declared; its driver comes up beside the holder
    DEPLOYED_AGAIN = "deployed_again"  # one that ran before was, by the watch or a roll-back
    STOOD_BY = "stood_by"  # a driver is up and has rehearsed
    REFUSED = "refused"  # a driver failed in its rehearsal
    ASKED = "asked"  # somebody asked for another holder, or for a stop, and that has not happened (yet)
    STARTED = "started"  # a driver holds, and none was to hold before
    ADOPTED = "adopted"  # a driver holds, and follows a job that ran without a stream
    HANDED_OVER = "handed_over"  # it took the stream over from another one
    ROLLED_BACK = "rolled_back"  # its release is the one that held before
    REVIVED = "revived"  # a driver holds, after the stream had lost its holder
    TAKEN_BACK = "taken_back"  # the standby did not acquire in time: the old holder holds again
    ABORTED = "aborted"  # what was asked for is given up
    ENDING = "ending"  # somebody has begun to end a job without a stream, or to ask for its end
    STOPPED = "stopped"  # no driver holds, as requested
    RELEASED = "released"  # the holder gave the stream up, and no other one has taken it over
    FAILED = "failed"
    FINISHED = "finished"
    FENCING = "fencing"  # somebody has begun to kill a driver
    FENCED = "fenced"  # it is confirmed dead
    RETIRED = "retired"  # a deployment that did not hold was ended
    ILLEGAL = "illegal"  # a record that broke a rule: no driver obeys it
    UNKNOWN = "unknown"  # a record of a kind that a later version has written

    @property
    def words(self) -> str:
        """Shown to people."""
        return self.replace("_", " ")


@dataclass(frozen=True)
class LifeEvent:
    """One event.

    :param seq: number of the record that decided it.
    :param what: see `What`.
    :param at: seconds since 1970, by the clock of the record's author; None = not known (an illegal record).
    :param by: the author of the request, or else of the record.
    :param reason: why, for people; empty where the record holds none, or only its author's name.
    :param deployment: that it is about; empty for none.
    :param incarnation: its driver; empty while it has none.
    :param version: label of its release; empty if that is not known any more.
    :param release: hash of its release.
    :param before: of a change of holder, the driver that held before; else empty.
    :param free_seconds: of a change of holder, the time without a holder, by the clocks of the two drivers.
    :param gap_seconds: of a change of holder, the gap of each query (`hooks.gaps`), as far as it can still be told.
    :param evidence: of a fence, what was found; of an adoption, by what the old job was gone, and of its end, which
        one it is (`job` is its id on the cluster). `person` is who confirmed it.
    """

    seq: int
    what: What
    at: float | None = None
    by: str = ""
    reason: str = ""
    deployment: str = ""
    incarnation: str = ""
    version: str = ""
    release: str = ""
    before: str = ""
    free_seconds: float | None = None
    gap_seconds: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return asdict(self)
