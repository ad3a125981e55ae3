"""What all stream operators share: observe, plan, carry out, defer. They differ in their plan only."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.links.stream import DriverLogLink, SparkUiLink, key
from airflow_stream_provider.planning.conditions import Condition, Needs
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import ask_again
from airflow_stream_provider.planning.steps import Append, Declare, Done, GiveUp, Kill, Skip, Step, Submit, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from airflow_stream_provider.triggers.stream import StreamTrigger

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.spec.stream import StreamSpec


@contextlib.contextmanager
def failing_without_retry() -> Iterator[None]:
    """Fail without the retries when a person has to change something first."""
    try:
        yield
    except SpecError as error:
        raise AirflowFailException(str(error)) from error


class StreamOperator(BaseOperator):
    """Base of the operators: the control log says where the stream is, `plan` says what comes next.

    There is no `on_kill`: a worker that is drained, a pod that is evicted and a person who marks the task failed all
    cause it, and none of them means that the stream should stop. Stopping is an operator of its own.

    :param stream: the stream, as read by `load_spec`.
    :param deployment: the deployment that this is about, from the XCom of the task that submitted it. (templated)
    :param reason: why, for the control log; default: the task. (templated)
    :param wait_seconds: fail when it is not done after so many seconds; what was asked for may still happen, and a
        cleared task finds it then.
    """

    template_fields: Sequence[str] = ("deployment", "reason")
    operator_extra_links = (SparkUiLink(), DriverLogLink())
    ui_color = "#e6f3f8"

    WAIT_SECONDS: ClassVar[float] = 900.0

    def __init__(
        self,
        *,
        stream: StreamSpec,
        deployment: str = "",
        reason: str = "",
        wait_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.deployment = deployment
        self.reason = reason
        self.wait_seconds = self.WAIT_SECONDS if wait_seconds is None else wait_seconds

    @cached_property
    def hook(self) -> StreamHook:
        """The stream as this process sees it."""
        # Here: a DAG file that is parsed needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.stream import StreamHook

        return StreamHook(self.stream.name, self.stream.control, self.stream.cluster, self.stream.kafka)

    # -- what the subclasses say -------------------------------------------------------------------------------------

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step."""
        raise NotImplementedError

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """What `plan` needs to know beyond the log and the heartbeats that are in `view`."""
        return Needs()

    def begin(self, context: Context) -> None:
        """What comes before the first look."""

    def declare(self, step: Declare, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        """Carry out a Declare; return whether it was written. Only operators that take a release plan one."""
        raise NotImplementedError

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Return the XCom: what the plan says, with what only I/O can add."""
        return dict(done)

    def subject(self, identity: TaskIdentity) -> str:
        """The deployment whose driver the links lead to."""
        return self.deployment

    # -- what Airflow calls ------------------------------------------------------------------------------------------

    def execute(self, context: Context) -> Any:
        """Do what is left to do, or defer."""
        with failing_without_retry():
            self.begin(context)
            return self._go(context, None, time.time() + self.wait_seconds)

    def resume(self, context: Context, event: Any = None) -> Any:
        """Go on after a wait."""
        outcome = WaitOutcome.from_event(event)
        with failing_without_retry():
            if outcome.ended is Ended.TIMEOUT:
                self._timed_out(context, outcome)
            return self._go(context, outcome, outcome.deadline)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _go(self, context: Context, outcome: WaitOutcome | None, deadline: float) -> Any:
        identity = TaskIdentity.of(context)
        first = False
        while True:
            snapshot = self.hook.observe()
            needs = self.needs(snapshot, identity)
            if needs.drivers:
                snapshot = self.hook.observe(needs)
            step = self.plan(snapshot, identity, outcome)
            self.log.info("After record %s of %s: %s.", snapshot.state.seq, self.stream.name, step)
            if isinstance(step, Append):
                written = self.hook.append(step.kind, identity.by, snapshot.state.seq, **step.fields)
                first = written and step.kind == Kind.DECLARED
                continue
            if isinstance(step, Declare):
                first = self.declare(step, snapshot, identity)
                continue
            if isinstance(step, Submit):
                certain = self.hook.submit(step.deployment, identity.by, first=first)
                first = False
                if certain:
                    continue
                step = ask_again(snapshot, step.deployment)
            self._leave_links(context, identity)
            return self._end(step, snapshot, deadline)

    def _end(self, step: Step, snapshot: Snapshot, deadline: float) -> Any:
        """Carry out a step after which this try of the task is over, or waits."""
        if isinstance(step, Done):
            return self.result(snapshot, step.result)
        if isinstance(step, Skip):
            raise AirflowSkipException(step.reason)
        if isinstance(step, GiveUp):
            raise AirflowFailException(str(step.error)) from step.error
        if isinstance(step, Kill):
            self.hook.kill(step.deployment)
            self._defer(step.then, deadline)
        if isinstance(step, Wait):
            self._defer(step.condition, deadline)
        raise TypeError(f"{step!r} is not an end")

    def _defer(self, condition: Condition, deadline: float) -> NoReturn:
        trigger = StreamTrigger(self.hook.address, condition.to_json(), deadline)
        self.defer(trigger=trigger, method_name="resume")

    def _timed_out(self, context: Context, outcome: WaitOutcome) -> NoReturn:
        says = "; ".join(f"{name} says {words!r}" for name, words in outcome.evidence.items())
        hint = self.timeout_hint(TaskIdentity.of(context))
        raise AirflowFailException(
            f"{self.stream.name}: {outcome.reason} for {self.wait_seconds:.0f} s. {says} {hint} "
            "Clear the task to wait again: it goes on from the control log."
        )

    def timeout_hint(self, identity: TaskIdentity) -> str:
        """Return what may have kept the task waiting."""
        return ""

    def _leave_links(self, context: Context, identity: TaskIdentity) -> None:
        deployment = self.subject(identity)
        if not deployment:
            return
        with contextlib.suppress(StreamError, KeyError):
            for label, address in self.hook.links(deployment).items():
                context["ti"].xcom_push(key=key(label), value=address)
