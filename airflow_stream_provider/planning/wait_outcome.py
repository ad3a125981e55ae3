"""How a wait ended: what a trigger tells its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.plain_text import plain, plain_within


class Ended(StrEnum):
    """How a wait ended."""

    REACHED = "reached"  # what was waited for has happened
    DEAD = "dead"  # a driver is confirmed dead: it may be fenced
    SILENT = "silent"  # a driver gives no sign of life: it must be killed, and confirmed dead, before it is fenced
    GONE = "gone"  # a driver that was to come up is gone, and has written nothing
    UNSENT = "unsent"  # a driver that was to come up was never sent to the cluster
    EXPIRED = "expired"  # what was waited for had a time of its own, and it is over
    BAD = "bad"  # what was watched is no good: a release in its soak, or a lag
    UNKNOWN = "unknown"  # whether it is good cannot be known
    CANNOT_LOOK = "cannot_look"  # nothing can be seen until a person mends the configuration
    TIMEOUT = "timeout"  # the time of the whole task is over


@dataclass(frozen=True)
class WaitOutcome:
    """How a wait ended.

    :param subject: the incarnation, deployment, request or stream that it is about.
    :param reason: why, for people.
    :param evidence: what was found; its keys depend on the condition.
    :param deadline: of the whole task, seconds since 1970; the event carries it from one wait to the next.
    :param counters: by incarnation, the heartbeat counter that was seen to stand still.
    """

    ended: Ended
    subject: str = ""
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    deadline: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)

    def to_event(self) -> dict[str, Any]:
        """Return the payload of the trigger's event."""
        # A text that cannot be encoded would end the triggerer, and with it the waits of all streams.
        return {
            "ended": self.ended.value,
            "subject": plain(self.subject),
            "reason": plain(self.reason),
            "evidence": plain_within(dict(self.evidence)),
            "deadline": self.deadline,
            "counters": dict(self.counters),
        }

    @classmethod
    def from_event(cls, event: Any) -> WaitOutcome:
        """Return the outcome of a payload; raise StreamError when it is none.

        The payload crossed the metadata database: a task must not take anything else for success.
        """
        try:
            ended, counters = Ended(event["ended"]), dict(event["counters"])
            return cls(ended, event["subject"], event["reason"], event["evidence"], event["deadline"], counters)
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise StreamError(
                f"The task was resumed with {event!r} instead of a stream event.",
                next_step="Clear the task: it reads the control log and goes on from there.",
            ) from error

    def about(self, ended: Ended, subject: str) -> bool:
        """Whether the wait ended like this for that subject."""
        return self.ended is ended and self.subject == subject

    def outdated(self, incarnation: str, counter: int) -> bool:
        """Whether a driver whose heartbeat was seen to stand still has beaten since; `counter` is the present one."""
        return counter > self.counters.get(incarnation, counter)
