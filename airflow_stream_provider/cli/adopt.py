"""Carry out an adoption in the process of a command: the new driver stands by, the old job ends, it takes over."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_stream_provider.cli.run_here import Exit, Ran, run_here
from airflow_stream_provider.hooks.old_job import is_to_end, runs_on
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.plain_text import plain
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.retire import RetireOperator
from airflow_stream_provider.planning.adopt import left_to_another
from airflow_stream_provider.planning.answer import Answered
from airflow_stream_provider.planning.operation import check_person
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot


def nobody_to_ask(json: bool) -> bool:
    """Whether no person can be asked to end the old job."""
    return json or not sys.stdin.isatty()


def adopt_here(operator: AdoptOperator, identity: TaskIdentity, reads_again: str) -> Ran:
    """Carry it out; a driver that has not taken over when it fails, or when the person gives up, is ended, unless
    somebody else has brought it up.

    :param reads_again: the records that the end of the job may double, for the person who is asked to end it.
    """
    ran = run_here(operator, identity)
    if ran.code is Exit.DONE and not ran.result.get("adopted"):
        deployment = str(ran.result["deployment"])
        is_to_end(operator.hook, identity, deployment, operator.reason)
        with _told_if_lost(operator.stream, deployment):
            operator.confirmed_by = _asked(deployment, str(ran.result["says"]), reads_again)
        if not operator.confirmed_by:
            runs_on(operator.hook, identity, deployment, "The old job goes on: nothing was adopted.")
            left = _discard(operator, identity) or "No driver is left beside it."
            return Ran(Exit.REFUSED, {}, f"Nothing was adopted: the old job goes on. {left}")
        ran = run_here(operator, identity)
    if ran.code is Exit.FAILED:
        return replace(ran, said=f"{ran.said} {_discard(operator, identity)}".rstrip())
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


def _discard(operator: AdoptOperator, identity: TaskIdentity) -> str:
    """End the driver that was to follow the job; return why it was not ended, if it was not."""
    deployment, why = operator.subject(identity), "It did not adopt the job."
    left = left_to_another(operator.hook.observe(history=False).state, deployment, identity)
    if not left:
        run_here(RetireOperator(task_id="discard", stream=operator.stream, deployment=deployment, reason=why), identity)
    return left
