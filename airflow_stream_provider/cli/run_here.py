"""Carry out a stream operator in this process: the plans and waits of its task, without a task."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.plain_text import plain
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.condition import Condition, Observations
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.step_loop import carry_out, has_moved_since
from airflow_stream_provider.planning.steps import Done, GiveUp, Kill, Skip
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_loop import Looks, wait
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

# A line of a wait that goes on comes so often, in seconds.
EVERY_SECONDS = 15.0


class Exit(IntEnum):
    """Exit codes of the commands that act."""

    DONE = 0  # it is done, or was already; of a dry run: it could be done
    REFUSED = 1  # nothing was touched
    FAILED = 2  # it was begun, and did not end as asked
    UNKNOWN = 3  # what is needed to do it, or to see its end, does not answer


@dataclass(frozen=True)
class Ran:
    """How it ended.

    :param result: what the task's XCom would be; empty unless it is done.
    :param said: the reason of its end; empty when it is done.
    :param snapshot: the last one; None: there was none.
    """

    code: Exit
    result: Mapping[str, Any]
    said: str = ""
    snapshot: Snapshot | None = None


class Progress:
    """The progress for a person, on standard error: standard output has the result alone.

    It takes what the step loop and the wait log, and says from time to time that it still waits, and for whom.
    """

    def __init__(self) -> None:
        self._said_at = time.monotonic()

    def info(self, text: str, *values: object) -> None:
        """Show a line."""
        self._said_at = time.monotonic()
        print(plain(f"{datetime.now().astimezone():%H:%M:%S} {text % values}"), file=sys.stderr, flush=True)

    warning = info

    def still(self, waits_for: str, last: Snapshot | None) -> None:
        """Show the present wait, and the last words of the drivers, unless a line was shown a moment ago."""
        if time.monotonic() < self._said_at + EVERY_SECONDS:
            return
        beats = last.heartbeats if last is not None else {}
        says = "; ".join(f"{name}: {beat.phase} {beat.message}".rstrip() for name, beat in beats.items())
        self.info("still waiting for %s. %s", waits_for, says)


def run_here(operator: StreamOperator, identity: TaskIdentity) -> Ran:
    """Plan and carry out one step after the other, and wait, until it is done, fails, or `wait_seconds` are over.

    :raises StreamError: something that is needed does not answer; what was asked for may have arrived.
    """
    deadline, progress = time.time() + operator.wait_seconds, Progress()
    outcome: WaitOutcome | None = None
    while True:
        end = carry_out(operator, operator.hook, identity, outcome, progress)
        if has_moved_since(operator.hook, end):
            end = carry_out(operator, operator.hook, identity, outcome, progress)
        step = end.step
        if isinstance(step, Done):
            return Ran(Exit.DONE, operator.result(end.snapshot, step.result), "", end.snapshot)
        if isinstance(step, Skip):
            return Ran(Exit.DONE, {}, step.reason, end.snapshot)
        if isinstance(step, GiveUp):
            return Ran(Exit.FAILED, {}, f"{step.error}{operator.log_end(step.log_of)}", end.snapshot)
        if isinstance(step, Kill):
            operator.hook.kill(step.deployment)
        elif step.log_of:
            progress.warning("%s", operator.of_mute_driver(step.log_of, identity))
        condition = step.then if isinstance(step, Kill) else step.condition
        outcome = _waited(operator.hook, condition, deadline, progress)
        if outcome.ended is Ended.TIMEOUT:
            said = f"{outcome.reason} {operator.wait_hint(identity)} It was waited for {operator.wait_seconds:.0f} s."
            return Ran(Exit.UNKNOWN, {}, " ".join(said.split()), end.snapshot)


def _waited(hook: StreamHook, condition: Condition, deadline: float, progress: Progress) -> WaitOutcome:
    looks = _LooksHere(hook, condition, progress)
    return asyncio.run(wait(condition, looks, deadline, subject=hook.stream, log=progress)).outcome


class _LooksHere(Looks[Snapshot, Observations]):
    """Looks that block: nothing else runs in this process, and Ctrl-C ends it."""

    def __init__(self, hook: StreamHook, condition: Condition, progress: Progress) -> None:
        self._hook = hook
        self._condition = condition
        self._progress = progress
        self._last: Snapshot | None = None

    async def look(self, memory: Observations) -> Snapshot:
        self._last = self._hook.observe(self._condition.needs(self._last, memory))
        return self._last

    async def pause(self) -> None:
        self._progress.still(self._condition.description, self._last)
        await asyncio.sleep(self._condition.pace)
