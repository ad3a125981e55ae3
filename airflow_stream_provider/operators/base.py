"""What all stream operators share: observe, plan, carry out, defer. They differ in their plan only."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.goals import Asks, Goal
from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.hooks.plan import ask_again
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Append, Done, GiveUp, Kill, Skip, Step, Submit, Wait
from airflow_stream_provider.links.stream import DriverLogLink, SparkUiLink, key
from airflow_stream_provider.model.errors import SpecError, StreamError
from airflow_stream_provider.model.record import Kind
from airflow_stream_provider.triggers.stream import StreamTrigger

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.runbook.spec import StreamSpec


@contextlib.contextmanager
def failing_at_once() -> Iterator[None]:
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

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        raise NotImplementedError

    def asks(self, view: Snapshot, author: Author) -> Asks:
        """What `plan` needs to know beyond the log and the heartbeats that are in `view`."""
        return Asks()

    def begin(self, context: Context) -> None:
        """What comes before the first look."""

    def result(self, view: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Return the XCom: what the plan says, with what only I/O can add."""
        return dict(done)

    def subject(self, author: Author) -> str:
        """The deployment whose driver the links lead to."""
        return self.deployment

    # -- what Airflow calls ------------------------------------------------------------------------------------------

    def execute(self, context: Context) -> Any:
        """Do what is left to do, or defer."""
        with failing_at_once():
            self.begin(context)
            return self._go(context, None, time.time() + self.wait_seconds)

    def resume(self, context: Context, event: Any = None) -> Any:
        """Go on after a wait."""
        outcome = Outcome.from_event(event)
        with failing_at_once():
            if outcome.ended is Ended.TIMEOUT:
                self._timed_out(context, outcome)
            return self._go(context, outcome, outcome.deadline)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _go(self, context: Context, outcome: Outcome | None, deadline: float) -> Any:
        author = Author.of(context)
        first = False
        while True:
            view = self.hook.observe()
            asks = self.asks(view, author)
            if asks.drivers:
                view = self.hook.observe(asks)
            step = self.plan(view, author, outcome)
            self.log.info("After record %s of %s: %s.", view.state.seq, self.stream.name, step)
            if isinstance(step, Append):
                written = self.hook.append(step.kind, author.by, view.state.seq, **step.fields)
                first = written and step.kind == Kind.DECLARED
                continue
            if isinstance(step, Submit):
                certain = self.hook.submit(step.deployment, author.by, first=first)
                first = False
                if certain:
                    continue
                step = ask_again(view, step.deployment)
            self._leave_links(context, author)
            return self._end(step, view, deadline)

    def _end(self, step: Step, view: Snapshot, deadline: float) -> Any:
        """Carry out a step after which this try of the task is over, or waits."""
        if isinstance(step, Done):
            return self.result(view, step.result)
        if isinstance(step, Skip):
            raise AirflowSkipException(step.reason)
        if isinstance(step, GiveUp):
            raise AirflowFailException(str(step.error)) from step.error
        if isinstance(step, Kill):
            self.hook.kill(step.deployment)
            self._defer(step.then, deadline)
        if isinstance(step, Wait):
            self._defer(step.goal, deadline)
        raise TypeError(f"{step!r} is not an end")

    def _defer(self, goal: Goal, deadline: float) -> NoReturn:
        trigger = StreamTrigger(self.hook.address, goal.to_json(), deadline)
        self.defer(trigger=trigger, method_name="resume")

    def _timed_out(self, context: Context, outcome: Outcome) -> NoReturn:
        says = "; ".join(f"{name} says {words!r}" for name, words in outcome.evidence.items())
        hint = self.timeout_hint(Author.of(context))
        raise AirflowFailException(
            f"{self.stream.name}: {outcome.reason} for {self.wait_seconds:.0f} s. {says} {hint} "
            "Clear the task to wait again: it goes on from the control log."
        )

    def timeout_hint(self, author: Author) -> str:
        """Return what may have kept the task waiting."""
        return ""

    def _leave_links(self, context: Context, author: Author) -> None:
        deployment = self.subject(author)
        if not deployment:
            return
        with contextlib.suppress(StreamError, KeyError):
            for label, address in self.hook.links(deployment).items():
                context["ti"].xcom_push(key=key(label), value=address)
