"""The waits of a task, the one loop that waits, and how a wait ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.texts import plain, plain_within
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import SoakLook
from airflow_stream_provider.planning.stream_health import HeartbeatAges


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


# The time that a first look after the deadline may take.
LAST_LOOK_SECONDS = 30.0

Look = TypeVar("Look")
Memory = TypeVar("Memory")
LookOut = TypeVar("LookOut", covariant=True)
MemoryIn = TypeVar("MemoryIn", contravariant=True)


@dataclass(frozen=True)
class WaitCondition(Generic[Look, Memory]):
    """Base of everything that a task can wait for: decides from each look whether the wait is over. Pure.

    The memory is what one observer has seen so far. It is lost with the observer: the next one then waits longer.
    """

    # Completes "waiting for"; names of fields in braces are replaced by their values.
    WAITS_FOR: ClassVar[str] = ""

    @property
    def description(self) -> str:
        """Completes the sentence "Waiting for …"."""
        return self.WAITS_FOR.format_map(vars(self))

    def new_memory(self) -> Memory:
        """Return the memory of an observer that has seen nothing."""
        raise NotImplementedError

    def check(self, look: Look, memory: Memory) -> WaitOutcome | None:
        """Return how the wait ended, or None to wait on."""
        raise NotImplementedError

    def problem(self, look: Look) -> str:
        """Return why the look shows nothing; empty when it does show something."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the condition as a trigger carries it: its fields, and under `condition` the name of its class."""
        return {"condition": type(self).__name__, **asdict(self)}


C = TypeVar("C", bound=WaitCondition[Any, Any])


def condition_from_json(data: Mapping[str, Any], kinds: Sequence[type[C]]) -> C:
    """Return the condition that a trigger carries. Fields that this version does not know are left out.

    :param kinds: the conditions that are accepted.
    :raises StreamError: it is none of them, or lacks a field.
    """
    known: dict[str, type[C]] = {each.__name__: each for each in kinds}
    try:
        kind = known[data["condition"]]
        # By tests/fixtures/format-1/README.md, a reader that does not know a field that was added is right without it.
        given = {each.name: data[each.name] for each in fields(kind) if each.name in data}
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
    except (KeyError, TypeError) as error:
        raise StreamError(
            f"{data!r} is not a condition that this version knows: another version of this provider has deferred it.",
            next_step="See that all triggerers have the newest version. Clear the task then.",
        ) from error


class Looks(Protocol[LookOut, MemoryIn]):
    """Where a wait gets its looks from."""

    async def look(self, memory: MemoryIn) -> LookOut:
        """Look once; a StreamError means that nothing could be seen."""

    async def look_less(self) -> LookOut | None:
        """Look at what can be seen all the same, after a look that failed; None: nothing more."""
        return None

    async def pause(self) -> None:
        """Sleep until it is time for the next look."""


class Waited(NamedTuple, Generic[Look]):
    """How a wait ended, and its last look; None when there was none."""

    outcome: WaitOutcome
    last: Look | None


async def wait(
    condition: WaitCondition[Look, Memory],
    looks: Looks[Look, Memory],
    deadline: float,
    *,
    subject: str,
    fatal: type[StreamError] | tuple[()] = (),
    log: logging.Logger | Any,
) -> Waited[Look]:
    """Look again and again until the condition ends the wait or the deadline has passed.

    A look that raises StreamError is tried again, with a new memory: what could not be watched was not seen to stand
    still, nor to be too far behind.

    :param deadline: seconds since 1970. Absolute, so that a wait that moves to another triggerer is not extended. A
        look that takes longer is cut off; but the first one has LAST_LOOK_SECONDS, even if the deadline has passed
        while no triggerer looked.
    :param subject: the stream or consumer group that the wait is about; begins each line of the log.
    :param fatal: error that no later look can cure; it ends the wait as CANNOT_LOOK.
    :param log: gets a line when the wait begins and ends, and for each new reason why nothing can be seen.
    """
    log.info("%s: waiting for %s.", subject, condition.description)
    waited = await _wait(condition, looks, deadline, subject, fatal, log)
    outcome = waited.outcome
    log.info("%s: the wait is over (%s): %s", subject, outcome.ended.value, outcome.reason or condition.description)
    return waited


async def _wait(
    condition: WaitCondition[Look, Memory],
    looks: Looks[Look, Memory],
    deadline: float,
    subject: str,
    fatal: type[StreamError] | tuple[()],
    log: logging.Logger | Any,
) -> Waited[Look]:
    memory = condition.new_memory()
    last: Look | None = None
    problem = ""
    first = max(deadline, time.time() + LAST_LOOK_SECONDS)
    while (left := (first or deadline) - time.time()) > 0:
        before, outcome = problem, None
        try:
            async with asyncio.timeout(left) as limit:
                last = await looks.look(memory)
            problem = condition.problem(last)
            outcome = condition.check(last, memory)
        except TimeoutError:
            if not limit.expired():
                raise
            break
        except fatal as error:
            return Waited(WaitOutcome(Ended.CANNOT_LOOK, reason=str(error)), last)
        except StreamError as error:
            memory, problem = condition.new_memory(), str(error)
            less = await looks.look_less()
            outcome = None if less is None else condition.check(less, condition.new_memory())
        first = 0.0
        if problem and problem != before:
            log.warning("%s: cannot look now: %s", subject, problem)
        if outcome is not None:
            return Waited(outcome, last)
        await looks.pause()
    reason = f"Timed out waiting for {condition.description}." + (f" Last problem: {problem}" if problem else "")
    return Waited(WaitOutcome(Ended.TIMEOUT, reason=reason), last)


@dataclass
class Observations:
    """The observations of one observer of a stream so far."""

    ages: HeartbeatAges = field(default_factory=HeartbeatAges)
    samples: list[SoakLook] = field(default_factory=list)
    over: bool = False  # at the last look the soak's time was over
    out_of_sight: float | None = None  # since when the cluster does not say that a job is gone, nor that it is there
    in_sight: float | None = None  # since when a driver that is to be gone is shown, by this machine's clock
    mute: tuple[DriverState, float] | None = None  # a driver that is to come up says nothing: its state, since when

    def silent(self, snapshot: Snapshot, drivers: Iterable[str], lease: float) -> tuple[str, ...]:
        """Return the deployments of drivers that have been silent for half a lease: the cluster is asked about them."""
        silent = (name for name in drivers if self.ages.seconds(snapshot, name) > lease / 2)
        return tuple(deployment_of(name) for name in silent)


@dataclass(frozen=True)
class Needs:
    """The needs of a look besides the control log and the heartbeats.

    :param drivers: deployments whose driver the cluster is asked about.
    :param lag: what the lag report must say exactly; None: the lag is not measured.
    :param job: the cluster's id of a job without a stream that it is asked about; empty: none.
    """

    drivers: tuple[str, ...] = ()
    lag: Moments | None = None
    job: str = ""


class Condition(WaitCondition[Snapshot, Observations]):
    """Base of the conditions on a stream. `pace`: seconds between looks; `soon`: until it is mostly met, or 0."""

    pace: ClassVar[float] = 2.0
    soon: ClassVar[float] = 0.0

    def new_memory(self) -> Observations:
        """Return observations without any look."""
        return Observations()

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Return what the next look must include, from the last one."""
        return Needs()
