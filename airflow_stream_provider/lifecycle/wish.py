"""The wish for a stream: what is to be, by whom, why and since when. One is current; drivers need not know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record

# A release that takes over by the verdict on its rehearsal is `approved` by this and the verdict; else by a person.
JUDGED = "judged: "


class Goal(str, Enum):
    """The state that a wish asks for."""

    HOLD = "hold"
    STAND_BY = "stand_by"
    STOP = "stop"
    LEAVE = "leave"

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _GOALS[self]

    @property
    def rest(self) -> bool:
        """Whether no driver is to hold the stream."""
        return self in (Goal.STOP, Goal.LEAVE)


_GOALS = {
    Goal.HOLD: "A driver of this release holds the stream.",
    Goal.STAND_BY: "A driver of this release stands by; the holder goes on.",
    Goal.STOP: "No driver holds the stream or stands by, until a person starts it.",
    Goal.LEAVE: "As stop, and for good.",
}


@dataclass(frozen=True)
class Wish:
    """One `wanted` record.

    :param record: the record itself.
    :param family: id of the wish that brought in the release; the deployments that serve the wish name it. Empty where
        no driver is to hold.
    :param before: family that held, and was to, until this wish; empty: none did. A release that never commits gives
        way to it, and withdrawing the wish goes back to it.
    """

    record: Record
    family: str = ""
    before: str = ""

    @property
    def id(self) -> str:
        """The id, made of the task or command that wishes it: the same for every try."""
        return str(self.record["wish"])

    @property
    def goal(self) -> Goal:
        """The state that it asks for."""
        return Goal(self.record["goal"])

    @property
    def seq(self) -> int:
        """Number of its record."""
        return self.record.seq

    @property
    def at(self) -> float:
        """When it was written, in seconds since 1970 by its author's clock."""
        return self.record.at

    @property
    def by(self) -> str:
        """The author."""
        return self.record.by

    @property
    def reason(self) -> str:
        """Why, for people."""
        return self.record.get("reason") or ""

    @property
    def author(self) -> str:
        """The author and the reason, where there is one."""
        return self.by if self.reason in ("", self.by) else f"{self.by} ({self.reason})"

    @property
    def alone(self) -> bool:
        """Whether the holder stops first, and only a driver that is declared after the wish fulfils it."""
        return self.record.get("alone") is True

    @property
    def back(self) -> bool:
        """Whether it is a roll-back: a holder that does not give the stream up in time is fenced."""
        return self.record.get("back") is True

    @property
    def approved(self) -> str:
        """The verdict or the person by which a release that has never held may take over; empty: it needs one."""
        return str(self.record.get("approved") or "")

    @property
    def approver(self) -> str:
        """The person who has approved it; empty: only the verdict on its rehearsal has, or nothing."""
        return "" if self.approved.startswith(JUDGED) else self.approved

    @property
    def adopts(self) -> bool:
        """Whether the release that it brings in is to follow a job without a stream."""
        return bool((self.record.get("policy") or {}).get("adopts"))

    @property
    def only_looks(self) -> bool:
        """Whether the driver that it brings in never comes to hold; see `Policy.only_looks`."""
        return Policy.from_json(self.record.get("policy") or {}).only_looks

    @property
    def job(self) -> str:
        """The cluster's id of the job without a stream that the driver follows; empty: none is known."""
        return str(self.record.get("job") or "")

    @property
    def confirmed_by(self) -> str:
        """The person by whose word that job is gone; empty: the cluster is asked."""
        return str(self.record.get("confirmed_by") or "")

    def fulfilled_by(self, declared: Record) -> bool:
        """Return whether a driver of the deployment that this record declares is what the wish asks to hold."""
        return (declared.get("family") or "") == self.family and (not self.alone or declared.seq > self.seq)

    def option(self, name: str, default: Any = None) -> Any:
        """Return another field of the record."""
        return self.record.get(name, default)


@dataclass(frozen=True)
class EndedJob:
    """A job without a stream that was ended, or is to be, so that a deployment follows it; until somebody holds.

    :param deployment: the one that is to follow it.
    :param expires: until then, in seconds since 1970 by its clock, the author of the record ends the job itself.
    :param id: the cluster's id of the job; empty: a person ends it.
    :param gone: the witness that confirmed that it is gone; empty: none yet.
    :param doubt: why no driver follows it without a person, though it is gone; empty: nothing is against it.
    """

    deployment: str
    expires: float
    id: str = ""
    gone: Mapping[str, Any] = field(default_factory=dict)
    doubt: str = ""
