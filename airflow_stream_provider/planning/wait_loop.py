"""The one loop that waits for conditions, of streams and of lags."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

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
        # By docs/compatibility.md, a reader that does not know a field that was added is right without it.
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
        first = 0.0
        if problem and problem != before:
            log.warning("%s: cannot look now: %s", subject, problem)
        if outcome is not None:
            return Waited(outcome, last)
        await looks.pause()
    reason = f"Timed out waiting for {condition.description}." + (f" Last problem: {problem}" if problem else "")
    return Waited(WaitOutcome(Ended.TIMEOUT, reason=reason), last)
