"""Carry out a stream operator in this process: the plans and waits of its task, without a task."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from typing import Any

from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.texts import plain
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.stream import RollBackOperator
from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.operation import check_person
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.step_loop import carry_out_try
from airflow_stream_provider.planning.steps import AskPerson, Done, GiveUp, Later, Skip, TaskIdentity
from airflow_stream_provider.planning.waits import Condition, Ended, Looks, Observations, WaitOutcome, wait
from airflow_stream_provider.spec.stream import StreamSpec

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
        step, snapshot = carry_out_try(operator, operator.hook, identity, outcome, progress)
        if isinstance(step, Done):
            return Ran(Exit.DONE, operator.result(snapshot, step.result), "", snapshot)
        if isinstance(step, Skip):
            return Ran(Exit.DONE, {}, step.reason, snapshot)
        assert not isinstance(step, AskPerson), "a wish ends with Done then"
        if isinstance(step, (GiveUp, Later)):
            return Ran(Exit.FAILED, {}, f"{step.error}{operator.log_end(step.log_of)}", snapshot)
        if step.log_of:
            progress.warning("%s", operator.of_mute_driver(step.log_of, identity))
        looks = _LooksHere(operator.hook, step.condition, progress)
        waited = wait(step.condition, looks, deadline, subject=operator.hook.stream, log=progress)
        outcome = asyncio.run(waited).outcome
        if outcome.ended is Ended.TIMEOUT:
            said = f"{outcome.reason} {operator.wait_hint(identity)} It was waited for {operator.wait_seconds:.0f} s."
            return Ran(Exit.UNKNOWN, {}, " ".join(said.split()), snapshot)


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


def nobody_to_ask(json: bool) -> bool:
    """Whether no person can be asked: there is no terminal, or a program reads the answer."""
    return json or not sys.stdin.isatty()


def adopt_here(operator: AdoptOperator, identity: TaskIdentity, reads_again: str) -> Ran:
    """Carry it out; a driver that has not taken over when it fails, or when the person gives up, is ended, unless
    somebody else has brought it up.

    :param reads_again: the records that the end of the job may double, for the person who is asked to end it.
    """
    ran = run_here(operator, identity)
    if ran.code is Exit.DONE and not ran.result.get("adopted"):
        deployment = str(ran.result["deployment"])
        with _told_if_lost(operator.stream, deployment):
            operator.confirmed_by = _asked(deployment, str(ran.result["says"]), reads_again)
        if not operator.confirmed_by:
            left = _discard(operator, identity, "The old job goes on.") or "No driver is left beside it."
            return Ran(Exit.REFUSED, {}, f"Nothing was adopted: the old job goes on. {left}")
        operator.family = str(ran.result["family"])
        ran = run_here(operator, replace(identity, task_id=f"{identity.task_id}.confirmed"))
    if ran.code is Exit.FAILED:
        return replace(ran, said=f"{ran.said} {_discard(operator, identity, 'It did not adopt the job.')}".rstrip())
    return ran


@contextmanager
def _told_if_lost(stream: StreamSpec, deployment: str) -> Iterator[None]:
    """Tell the person who is asked as soon as the driver cannot follow the job any more."""
    condition, hook, answered = Answered(deployment, ""), StreamHook.of(stream), threading.Event()

    def watch() -> None:
        seen = condition.new_memory()
        last: Snapshot | None = None
        while not answered.wait(condition.pace):
            with suppress(StreamError):  # nothing can be seen now
                last = hook.observe(condition.needs(last, seen))
                outcome = condition.check(last, seen)
                if outcome is not None and not answered.is_set():
                    print(plain(f"\n{outcome.reason} Do NOT end the old job; give up."), flush=True)
                    return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        answered.set()


def _asked(deployment: str, says: str, reads_again: str) -> str:
    """Return the name of the person by whose word the old job is gone; empty: it goes on."""
    print(plain(f"{deployment} stands by and has rehearsed. {says}"))
    print("End the old job now, and see that nothing starts it again.")
    print(plain(f"Read again: {reads_again}"), flush=True)
    while True:
        try:
            return check_person(input("Your name, once it is gone (nothing: give up): "))
        except SpecError as error:
            print(plain(str(error)), flush=True)
        except (KeyboardInterrupt, EOFError):
            return ""


def _discard(operator: AdoptOperator, identity: TaskIdentity, why: str) -> str:
    """Take the adoption back, and end the driver that was to follow the job; return why not, if that is not done."""
    state = operator.hook.observe(history=False).state
    origin = None if state.wish is None else state.wishes.get(state.wish.family)
    if origin is None or state.has_run(origin.family):
        return ""
    if not origin.by.startswith(identity.run):
        return f"What is to follow the job was brought up by {origin.author}, and is left to that."
    back = RollBackOperator(task_id="discard", stream=operator.stream, fault="", reason=why)
    ran = run_here(back, replace(identity, task_id=f"{identity.task_id}.discard"))
    left = any(not each.ended for each in operator.hook.observe(history=False).state.family(origin.family))
    return ran.said if left else ""
