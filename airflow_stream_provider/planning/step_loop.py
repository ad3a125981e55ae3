"""The one loop that carries steps out: operators, command line, forecast and simulation run it."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple, Protocol

from airflow_stream_provider.planning.bring_up import ask_again, nobody_else_submitted
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import (
    Append,
    AskPerson,
    Declare,
    Done,
    EndJob,
    GiveUp,
    Kill,
    Later,
    Refusal,
    Refuse,
    Skip,
    Step,
    Submit,
    TaskIdentity,
    Wait,
    Want,
)
from airflow_stream_provider.planning.waits import Ended, Needs, WaitOutcome


class Verb(Protocol):
    """The wish of a task for its stream; a StreamOperator."""

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None, /) -> Step:
        """Return the next step. `outcome`: how the last wait ended, None before the first."""

    def needs(self, snapshot: Snapshot, identity: TaskIdentity, /) -> Needs:
        """Return what `plan` needs beyond the control log and the heartbeats of the snapshot."""

    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity, /) -> bool:
        """Carry out a Want; return whether the record was written."""


class Stream(Protocol):
    """The stream as a task reaches it; a StreamHook."""

    def observe(self, needs: Needs = ..., /) -> Snapshot:
        """Look once."""

    def append(self, kind: str, by: str, seq: int, **fields: Any) -> bool:
        """Append a record if the log still ends at `seq`; return whether it was written."""

    def declare(self, step: Declare, by: str, seq: int, /) -> bool:
        """Append `declared` if the log still ends at `seq`; return whether it was written.

        :raises ClusterError: the cluster has no room or does not answer; nothing was declared.
        """

    def submit(self, deployment: str, by: str, /, *, first: bool) -> bool:
        """Submit a declared deployment exactly once; return False when it is not known yet whether it arrived."""

    def end_job(self, job: str, /) -> bool:
        """Have the cluster end a job without a stream; return whether it is confirmed gone within some seconds."""

    def kill(self, deployment: str, /) -> None:
        """Kill what the cluster runs of a deployment."""

    def refuse(self, refusal: Refusal, /) -> bool:
        """Have the ledger refuse what a driver writes; return whether it does."""


class End(NamedTuple):
    """The step that ends a try of the task, and the snapshot that it was planned from."""

    step: Done | Skip | GiveUp | Later | AskPerson | Wait | Kill
    snapshot: Snapshot


class Try(NamedTuple):
    """How a try ended, once what was to be killed is killed."""

    step: Done | Skip | GiveUp | Later | AskPerson | Wait
    snapshot: Snapshot


def carry_out(
    verb: Verb, stream: Stream, identity: TaskIdentity, outcome: WaitOutcome | None, log: logging.Logger | Any
) -> End:
    """Observe, plan and carry out one step after the other, until one ends this try of the task or defers it.

    :param outcome: how the last wait ended, None before the first.
    :param log: gets a line for each step.
    """
    first = False
    while True:
        snapshot = stream.observe()
        needs = verb.needs(snapshot, identity)
        if needs != Needs():
            snapshot = stream.observe(needs)
        step = verb.plan(snapshot, identity, outcome)
        say = log.warning if isinstance(step, GiveUp) else log.info
        say("After record %s of %s: %s.", snapshot.state.seq, snapshot.stream, step)
        step = _refused(stream, step) if isinstance(step, Refuse) else step
        if isinstance(step, Append):
            stream.append(step.kind, identity.by, snapshot.state.seq, **step.fields)
            # Also after `declared`: another run of the watch may have submitted it since.
            first = False
        elif isinstance(step, Declare):
            first = stream.declare(step, identity.by, snapshot.state.seq)
        elif isinstance(step, Want):
            verb.want(step, snapshot, identity)
        elif isinstance(step, Submit):
            first = nobody_else_submitted(snapshot, step.deployment, first)
            certain = stream.submit(step.deployment, identity.by, first=first)
            first = False
            if outcome is not None and outcome.ended is Ended.UNSENT:
                outcome = None  # it was so before
            if not certain:
                return End(ask_again(snapshot, step.deployment), snapshot)
        elif isinstance(step, EndJob):
            # Not deferred at once: no driver writes from here on, and each second counts.
            if not stream.end_job(step.job):
                return End(Wait(step.then), snapshot)
        else:
            return End(step, snapshot)


def _refused(stream: Stream, step: Refuse) -> Append | Wait:
    """Have the ledger refuse a driver; return what is to be done then."""
    return step.fenced if stream.refuse(step.refusal) else Wait(step.then)


def carry_out_try(
    verb: Verb, stream: Stream, identity: TaskIdentity, outcome: WaitOutcome | None, log: logging.Logger | Any
) -> Try:
    """Carry out the steps of one try, a kill included, so that it ends by itself or with a wait; see `carry_out`.

    A driver that is to be killed and has beaten since is looked at once more; only once, as some are killed though
    they live.
    """
    end = carry_out(verb, stream, identity, outcome, log)
    if _has_moved_since(stream, end):
        end = carry_out(verb, stream, identity, outcome, log)
    if not isinstance(end.step, Kill):
        return Try(end.step, end.snapshot)
    stream.kill(end.step.deployment)
    return Try(Wait(end.step.then), end.snapshot)


def _has_moved_since(stream: Stream, end: End) -> bool:
    """Whether a driver that is to be killed has beaten since that was planned: the cluster may have been slow."""
    if not isinstance(end.step, Kill) or not isinstance(end.step.then, Dead):
        return False
    name = end.step.then.incarnation
    return stream.observe().counter(name) > end.snapshot.counter(name)
