"""Base of the stream operators: state a wish once, take steps until it is so, defer while that takes longer.

The modules of an operator's plan are imported inside functions: the DAG processor, which parses all streams' DAGs again
and again, needs none of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from urllib.parse import SplitResult

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.ids import check_stream_name, deployment_of
from airflow_stream_provider.links.stream import DriverLogLink, SparkUiLink, key
from airflow_stream_provider.triggers.grace import beyond

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.lifecycle.state import StreamState
    from airflow_stream_provider.planning.scene import Scene
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity, Want
    from airflow_stream_provider.planning.verbs import Answer
    from airflow_stream_provider.planning.waits import Condition, Needs, WaitOutcome
    from airflow_stream_provider.spec.stream import StreamSpec


# For so long (seconds) a task waits in the worker for what mostly comes soon, each time that it goes on: to defer and
# come back takes Airflow about as long. And the pause between two looks there.
HERE_SECONDS, HERE_PACE = 5.0, 0.5
# The last events of an alias among which a stream's is looked for: a folder's revivals have one for all streams.
EVENTS = 100


def stream_asset(name: str, extra: Mapping[str, Any] | None = None) -> Asset:
    """Return the asset of a stream, for ``schedule=[stream_asset("orders")]``: ``stream://NAME``.

    :param name: of the stream.
    :param extra: of the asset; default: none.
    :raises ValueError: that is no stream's name.
    """
    return Asset(name=f"stream://{name}", uri=f"stream://{name}", extra=dict(extra or {}))


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the URI of a stream's asset as it is; Airflow calls it for the scheme ``stream``.

    :raises ValueError: it has anything but the name of a stream.
    """
    if uri.path not in ("", "/") or uri.query:
        raise ValueError(f"{uri.geturl()!r} has more than the name of a stream. Write stream://NAME.")
    try:
        check_stream_name(uri.netloc)
    except StreamError as error:
        raise ValueError(str(error)) from None
    return uri


def hand_overs(name: str) -> AssetAlias:
    """Return what tasks have as an outlet in place of the asset: only then may one succeed without an event."""
    return AssetAlias(f"stream://{name} hand-overs")


def event_of(snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts on the present holder for followers; empty when there is none.

    :param done: the XCom of the task, which may have measured the gap.
    :return: `stream`, `deployment`, `version`, `release` (its hash), `holder` (the driver), `epoch`, `gap_seconds` by
        query as far as it is known.
    """
    held = snapshot.state.holding_deployment
    if held is None:
        return {}
    return {
        "stream": snapshot.stream,
        "deployment": held.id,
        "version": held.release.version,
        "release": held.release.hash,
        "holder": snapshot.state.holder,
        "epoch": snapshot.state.epoch,
        "gap_seconds": dict(done.get("gap_seconds") or {}) if done.get("epoch") == snapshot.state.epoch else {},
    }


def announce(context: Context, snapshot: Snapshot, done: Mapping[str, Any], alias: AssetAlias) -> None:
    """Let the task's success be an event of the stream's asset, unless the last event says the same already.

    So there is one for each hand-over, also after a task that was killed between hand-over and end, and none when a
    task is cleared that had ended.

    :param alias: what the task has as an outlet.
    """
    outlets: Any = context.get("outlet_events")
    event = event_of(snapshot, done)
    if outlets is None or not event:
        return
    if [event["epoch"], event["holder"]] != _last(context, alias, snapshot.stream):
        outlets[alias].add(stream_asset(snapshot.stream), extra=event)


def _last(context: Context, alias: AssetAlias, stream: str) -> list[Any]:
    """Return epoch and holder of a stream's last event; empty when there is none, or it cannot be read."""
    inlets: Any = context.get("inlet_events")
    try:
        events = [each.extra for each in inlets[alias].ascending(False).limit(EVENTS)]
    except (AirflowRuntimeError, KeyError):
        # Told twice is better than a hand-over that fails for want of a database.
        return []
    return next(([each.get("epoch"), each.get("holder")] for each in events if each.get("stream") == stream), [])


def with_gaps(snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
    """Add how the change of holder went: `boundary`, `ends` (last batch by query), `gap_seconds` by query."""
    from airflow_stream_provider.hooks.about_drivers import gaps

    request = done.get("request")
    acquired = next((record for record in snapshot.acquisitions() if request and record["request"] == request), None)
    if acquired is None:
        return dict(done)
    # Also where it stopped for another request, as with the strategy `restart`.
    return {**done, **snapshot.release_before(acquired), "gap_seconds": gaps(snapshot, acquired)}


class StreamOperator(BaseOperator):
    """Base of the stream operators; each has a plan of its own.

    There is no `on_kill`: Airflow calls it when a worker is drained, a pod is evicted or a task is marked failed, and
    none of these means that the stream should stop. Use StopStreamOperator for that.

    :param stream: the stream, as read by `load_spec`.
    :param family: of the release to work on, from the XCom of the task that submitted it. (templated)
    :param deployment: deployment to work on, for the operators that name one. (templated)
    :param reason: reason for the control log; default: the task's identity. (templated)
    :param wait_seconds: seconds after which the task fails. Its wish may still come true; a cleared task
        then finds it in the control log.
    """

    template_fields: Sequence[str] = ("family", "deployment", "reason")
    operator_extra_links = (SparkUiLink(), DriverLogLink())
    ui_color = "#e6f3f8"

    WAIT_SECONDS: ClassVar[float] = 900.0
    STREAMS: ClassVar[str] = ""
    """The name of an asset's alias for a task that finds its stream when it runs."""
    CHANGES_HOLDER: ClassVar[bool] = False
    """Whether its success may be an event of the stream's asset (`announce`), and its XCom says how it went."""
    _last_look: Snapshot | None = None
    """The last look of this try; None before."""
    _result: Mapping[str, Any] = {}
    """The XCom of a task that is done."""

    def __init__(
        self,
        *,
        stream: StreamSpec,
        family: str = "",
        deployment: str = "",
        reason: str = "",
        wait_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        self.alias = hand_overs(stream.name if stream is not None else self.STREAMS)
        if self.CHANGES_HOLDER:
            ours = [self.alias]
            kwargs = {**kwargs, **{name: [*(kwargs.get(name) or ()), *ours] for name in ("inlets", "outlets")}}
        super().__init__(**kwargs)
        self.stream = stream
        self.family = family
        self.deployment = deployment
        self.reason = reason
        self.wait_seconds = self.WAIT_SECONDS if wait_seconds is None else wait_seconds

    @cached_property
    def hook(self) -> StreamHook:
        """The hook of the stream."""
        # Imported here: parsing a DAG file needs no hook, nor the clients behind it.
        from airflow_stream_provider.hooks.stream import StreamHook

        return StreamHook.of(self.stream)

    # -- what the subclasses say -------------------------------------------------------------------------------------

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step. `outcome`: how the last wait ended, None before the first."""
        raise NotImplementedError

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Return what `plan` needs beyond the control log and the heartbeats of the snapshot."""
        from airflow_stream_provider.planning.waits import Needs

        return Needs()

    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        """Carry out a Want; return whether the record was written."""
        return self.hook.wish(step, identity.by, snapshot.state.seq)

    def begin(self, context: Context) -> None:
        """Prepare; called once per try, before the first look at the stream."""

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Return the XCom: the result of the plan, with what has to be read from elsewhere."""
        return with_gaps(snapshot, done) if self.CHANGES_HOLDER else dict(done)

    def subject(self, state: StreamState, identity: TaskIdentity) -> str:
        """Return the deployment whose driver the task's links lead to; else they lead to that of the holder."""
        wish = state.wishes.get(identity.wish)
        known = state.family((wish.family if wish is not None else "") or self.family)
        return known[-1].id if known else self.deployment

    # -- what Airflow calls ------------------------------------------------------------------------------------------

    def execute(self, context: Context) -> Any:
        """Carry out what is left to do, or defer."""
        from airflow_stream_provider.hooks.failing import failing_without_retry

        with failing_without_retry():
            self.begin(context)
            return self._go(context, None, time.time() + self.wait_seconds)

    def resume(self, context: Context, event: Any = None) -> Any:
        """Continue after a wait; fail when it timed out."""
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.planning.waits import Ended, WaitOutcome

        outcome = WaitOutcome.from_event(event)
        with failing_without_retry():
            if outcome.ended is Ended.TIMEOUT:
                self._timed_out(context, outcome)
            return self._go(context, outcome, outcome.deadline)

    # -- one try of the task -----------------------------------------------------------------------------------------

    def _go(self, context: Context, outcome: WaitOutcome | None, deadline: float) -> Any:
        from airflow_stream_provider.operators.lineage import parent_job
        from airflow_stream_provider.planning.step_loop import carry_out_try
        from airflow_stream_provider.planning.steps import AskPerson, Done, GiveUp, Later, Skip, TaskIdentity, Wait
        from airflow_stream_provider.triggers.stream import StreamTrigger

        identity, here = TaskIdentity.of(context), min(deadline, time.time() + HERE_SECONDS)
        self.hook.parent_job = parent_job(context)
        step, snapshot = carry_out_try(self, self.hook, identity, outcome, self.log)
        while isinstance(step, Wait) and (met := self._met_soon(step.condition, here)) is not None:
            step, snapshot = carry_out_try(self, self.hook, identity, met, self.log)
        self._last_look = snapshot
        self._leave_links(context, identity, snapshot)
        if isinstance(step, Done):
            self._result = result = self.result(snapshot, step.result)
            announce(context, snapshot, result, self.alias)
            return result
        if isinstance(step, Skip):
            raise AirflowSkipException(step.reason)
        if isinstance(step, AskPerson):
            raise AirflowSkipException(f"A person is to end the job that {step.deployment} follows, and to say so.")
        if isinstance(step, (GiveUp, Later)):
            raise AirflowFailException(f"{step.error}{self.log_end(step.log_of)}") from step.error
        if step.log_of:
            self.log.warning("%s", self.of_mute_driver(step.log_of, identity))
        trigger = StreamTrigger(self.hook.address, step.condition.to_json(), deadline)
        return self.defer(trigger=trigger, method_name="resume", timeout=beyond(deadline - time.time()))

    def _met_soon(self, condition: Condition, until: float) -> WaitOutcome | None:
        """Return how a wait has ended that was over soon, and well; None: a trigger waits for it.

        Bad news, such as a silence, is for the trigger to find: it takes longer, and a look may have hung here.
        """
        from airflow_stream_provider.control.bounded import NoAnswer, call
        from airflow_stream_provider.planning.waits import Ended

        memory, last = condition.new_memory(), None
        until = min(until, time.time() + condition.soon)
        while (left := until - time.time()) > 0:
            try:
                last = call(partial(self.hook.observe, condition.needs(last, memory)), left, "the stream")
            except StreamError as error:
                if isinstance(error, NoAnswer):
                    del self.hook  # the look that hangs goes on with it
                return None
            outcome = condition.check(last, memory)
            if outcome is not None:
                return outcome if outcome.ended is Ended.REACHED and all(outcome.evidence.values()) else None
            time.sleep(HERE_PACE)
        return None

    def _timed_out(self, context: Context, outcome: WaitOutcome) -> NoReturn:
        from airflow_stream_provider.planning.steps import TaskIdentity

        says = "; ".join(f"{name} says {words!r}" for name, words in outcome.evidence.items())
        identity = TaskIdentity.of(context)
        hint, deployment = self.wait_hint(identity), ""
        with contextlib.suppress(StreamError):
            deployment = self.subject(self.hook.control_log.refresh(), identity)
        mute = all(deployment_of(name) != deployment for name in outcome.evidence)
        tail = self.log_end(deployment) if mute else ""
        raise AirflowFailException(
            f"{self.stream.name}: {outcome.reason} The task waited {self.wait_seconds:.0f} s. {says} {hint} "
            f"Clear the task to wait again: it continues from the control log.{tail}"
        )

    def of_mute_driver(self, deployment: str, identity: TaskIdentity) -> str:
        """Return a sentence on a driver that should have given a sign of life by now."""
        hint, tail = self.wait_hint(identity), self.log_end(deployment)
        return f"The driver of {deployment} has not written to the control log yet. {hint}{tail}"

    def log_end(self, deployment: str) -> str:
        """Return the end of the log of a deployment's driver, to stand behind a sentence; empty if there is none."""
        from airflow_stream_provider.hooks.about_drivers import log_tail

        tail = log_tail(self.hook, deployment) if deployment else ""
        return f"\nThe end of the log of its driver:\n{tail}" if tail else ""

    def wait_hint(self, identity: TaskIdentity) -> str:
        """Return a sentence on what may keep the task waiting; empty when nothing is known."""
        return ""

    def _leave_links(self, context: Context, identity: TaskIdentity, snapshot: Snapshot) -> None:
        """Leave the addresses of the driver that the task works on, or else of the one that holds or held last."""
        from airflow_stream_provider.hooks.about_drivers import driver_links

        deployment = self.subject(snapshot.state, identity)
        if deployment not in snapshot.state.deployments:
            deployment = deployment_of(snapshot.state.last_holder or "")
        if not deployment:
            return
        with contextlib.suppress(StreamError, KeyError):
            for label, address in driver_links(self.hook, deployment).items():
                context["ti"].xcom_push(key=key(label), value=address)


class WishOperator(StreamOperator):
    """Base of the operators that have a wish for their stream: they state it once, and take steps until it is so."""

    def wish(self, scene: Scene) -> Answer:
        """Return what the task wishes for, or why it wishes nothing; it is asked until a wish of it is in the log."""
        raise NotImplementedError

    def hangs(self, snapshot: Snapshot, identity: TaskIdentity) -> str:
        """Return why the holder is fenced without being asked, as a sentence; empty: it is asked."""
        return ""

    def left(self, state: StreamState, identity: TaskIdentity) -> Iterable[str]:
        """Return the families of which nothing is to be left that is not needed, where a wish is taken back."""
        return ()

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.pursue import pursue
        from airflow_stream_provider.planning.retire import end_unneeded
        from airflow_stream_provider.planning.scene import Scene

        scene = Scene(snapshot, identity, outcome, hangs=self.hangs(snapshot, identity))
        step = pursue(scene, lambda: self.wish(scene))
        return end_unneeded(scene, step, self.left(snapshot.state, identity), self.reason or identity.by)

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.due import needs

        return needs(snapshot, self.left(snapshot.state, identity))
