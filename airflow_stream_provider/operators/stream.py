"""The operators of a whole stream: start, stop, hand over, roll back, revive, fence, retire, call off, make room."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.release import ReleaseOperator
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity
    from airflow_stream_provider.planning.waits import Needs, WaitOutcome
    from airflow_stream_provider.spec.stream import StreamSpec


class FenceOperator(StreamOperator):
    """Kill every driver of a deployment and append `fenced` once that is confirmed; then another may take over.

    The other operators fence by themselves where they must. This one is for a person on call: a holder that misbehaves,
    or a cluster that is gone for good and can no longer confirm anything.

    :param confirmed_by: the person who made sure that none of the drivers runs or can come back. The cluster is then
        not asked; if the person is wrong, two drivers write one checkpoint. Refused for a driver that has beaten within
        its lease. (templated)

    XCom: `fenced`, the incarnations that this task fenced.
    """

    template_fields = (*StreamOperator.template_fields, "confirmed_by")
    OPERATION = Operation.FENCE

    def __init__(self, *, confirmed_by: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.confirmed_by = confirmed_by

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.lifecycle.record import Kind
        from airflow_stream_provider.planning.fence import fence, fence_by_word
        from airflow_stream_provider.planning.operation import check_person
        from airflow_stream_provider.planning.steps import Done, Skip

        who = check_person(self.confirmed_by)
        if self.deployment not in snapshot.state.deployments:
            return Skip(f"There is no deployment {self.deployment!r}.")
        drivers = snapshot.state.of_deployment(self.deployment)
        left = [d.id for d in drivers if not d.state.terminal or d.id in snapshot.state.must_fence]
        if left:
            why = self.reason or identity.by
            return fence_by_word(snapshot, left[0], who, why) if who else fence(snapshot, left[0], outcome, why)
        fenced = [r["incarnation"] for r in snapshot.records if r.kind == Kind.FENCED and r.by == identity.by]
        return Done({"stream": snapshot.stream, "deployment": self.deployment, "fenced": fenced})


class MakeRoomOperator(StreamOperator):
    """Retire the deployments that earlier runs left warm, to make room for a new standby. The holder is not touched."""

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.retire import leftovers, retire_all
        from airflow_stream_provider.planning.steps import Done

        wanted = leftovers(snapshot, identity)
        step = retire_all(snapshot, wanted, outcome, self.reason or f"superseded by {identity.run}")
        return step or Done({"stream": snapshot.stream, "retired": list(wanted)})

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Ask the cluster which of their drivers are gone."""
        from airflow_stream_provider.planning.retire import leftovers
        from airflow_stream_provider.planning.waits import Needs

        return Needs(drivers=leftovers(snapshot, identity))


class RetireOperator(StreamOperator):
    """End a deployment that does not hold the stream: its driver exits, and is killed if it does not.

    Skipped when it holds the stream, or is not known. XCom: `retired`, `version`.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.retire import retire

        return retire(snapshot, self.deployment, outcome, self.reason or identity.by)

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.waits import Needs

        return Needs(drivers=(self.deployment,) if self.deployment in snapshot.state.deployments else ())


class AbortOperator(RetireOperator):
    """End a deployment that comes up or stands by and has never held the stream; the holder goes on.

    An open hand-over to it is waited for; fails when that has made it the holder. Skipped when it is not known. The run
    that brought it up fails by itself. XCom: as of RetireOperator.
    """

    OPERATION = Operation.ABORT

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.retire import abort

        return abort(snapshot, self.deployment, outcome, self.reason or identity.by)


class StopStreamOperator(StreamOperator):
    """Stop the stream at a batch boundary, and end every driver of it. Done when all of them are confirmed gone.

    A stream without a holder is stopped, too: the watch then leaves it alone until a person starts it.

    :param restarts: not empty: a task that starts the stream follows. Should the run end before that, the watch brings
        the stream back. Default: it is to stay stopped. (templated)

    XCom: `stopped`, `holder` (empty), `request`, `offsets` by query: topic, partition, offset of the first record that
    is not committed. If a holder released for this very stop, also `boundary` (completed or interrupted) and `ends`
    (the last batch by query).
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "restarts")
    OPERATION = Operation.STOP

    def __init__(self, *, restarts: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.restarts = restarts

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.stop import stop

        return stop(snapshot, identity, outcome, self.reason or identity.by, restarts=bool(self.restarts))

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        """Ask the cluster which drivers are gone, once the stream has no holder."""
        from airflow_stream_provider.planning.stop import stoppable
        from airflow_stream_provider.planning.waits import Needs

        return Needs(drivers=() if snapshot.holding else stoppable(snapshot, identity))

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add where each query stopped: `boundary`, `ends` and `offsets`."""
        from airflow_stream_provider.hooks.lag import committed_offsets

        if not done["stopped"]:
            return dict(done)
        ends = snapshot.release_for(done["request"]) if done["request"] else {}
        stream = self.stream
        offsets = committed_offsets(stream.name, stream.control, snapshot.state, snapshot.heartbeats)
        # Through JSON: partitions are numbers here, and the keys of an XCom are text.
        return {**done, **ends, "offsets": json.loads(json.dumps(offsets))}


# A heartbeat that has grown since an older sample of the watch may have stood still again for most of the time. So
# whatever the watch's schedule: without a sample a sign of life is waited for, which takes seconds.
SAMPLE_SECONDS = 180.0


class ReviveStreamOperator(StreamOperator):
    """Bring back a stream that has lost its holder; skipped, with the reason, when there is nothing to do.

    It fences the dead driver (killed, and confirmed gone by the cluster), ends requests that no driver can fulfil any
    more, and appoints a warm driver of the release that held last, or else starts that release again; for the
    exceptions see `recovery_step`. A new release is never put in charge; a stream that was stopped or has finished is
    left alone.

    :param stream: the stream; None: that of `name`, as it was declared last, whatever its YAML says by now.
    :param name: of the stream. (templated)
    :param control: URL of its control root; empty: the one that has it. (templated)
    :param watch: id of the DAG that watches it, and knows the control roots: of no other one a stream is brought back.

    XCom: `stream`, `holder`, `phase`.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "name", "control")

    WAIT_SECONDS = 1500.0
    STREAMS = "*"
    CHANGES_HOLDER = True
    _before: Mapping[str, int] = {}

    def __init__(
        self, *, stream: StreamSpec | None = None, name: str = "", control: str = "", watch: str = "", **kwargs: Any
    ) -> None:
        self.given = stream is not None
        super().__init__(stream=cast("StreamSpec", stream), **kwargs)
        self.name = name
        self.control = control
        self.watch = watch

    @override
    def execute(self, context: Context) -> Any:
        self._find()
        return super().execute(context)

    @override
    def resume(self, context: Context, event: Any = None) -> Any:
        self._find()
        return super().resume(context, event)

    def _find(self) -> None:
        if self.given:
            return
        from airflow_stream_provider.hooks.failing import failing_without_retry
        from airflow_stream_provider.operators.watch import KnownRoots

        with failing_without_retry():
            self.stream = KnownRoots(self.watch).declared(self.name, self.control)

    @override
    def begin(self, context: Context) -> None:
        # Imported here: parsing a DAG file needs no samples.
        from airflow_stream_provider.monitoring.samples import last

        if not self.hook.exists():
            raise AirflowSkipException("This stream has never been deployed.")
        sample = last(self.hook.samples)
        # Either way: the clock of the machine that wrote it may be wrong.
        lately = sample is not None and abs(time.time() - sample.at) <= SAMPLE_SECONDS
        self._before = sample.counters if sample is not None and lately else {}

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.recover import recover
        from airflow_stream_provider.planning.steps import Done, Skip

        step = recover(snapshot, identity, outcome, self._before)
        if isinstance(step, Done) and not any(record.by == identity.by for record in snapshot.records):
            return Skip(f"{snapshot.holding} holds it, and its driver is alive.")
        return step

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.recover import drivers_of_interest, job_of_interest
        from airflow_stream_provider.planning.waits import Needs

        return Needs(drivers=drivers_of_interest(snapshot), job=job_of_interest(snapshot))


class HandOverOperator(StreamOperator):
    """Make a warm deployment the holder: by a hand-over at a batch boundary or, without a holder, by an appointment.

    The task makes the request and waits; the two drivers do the rest through the control log. A dead holder is fenced
    first: killed and confirmed gone; so is one that hangs (`planning.hanging`), which is not asked. Fails when the old
    holder kept the stream or took it back; the stream then runs, and the message says which deployment holds it.

    XCom: `deployment`, `version`, `previous` (deployment), `holder`, `epoch`, `request`, `boundary` (completed or
    interrupted), `ends` (the last batch by query), `gap_seconds` by query as far as it is known.
    """

    CHANGES_HOLDER = True

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.hooks.about_drivers import holder_hangs
        from airflow_stream_provider.planning.take_over import take_over

        # Only of the drivers that are about to be asked.
        asks = not snapshot.holds(self.deployment) and snapshot.state.open_request is None
        may = asks and snapshot.candidate(self.deployment) is not None
        hangs = holder_hangs(self.hook, self.stream, snapshot) if may else ""
        return take_over(snapshot, identity, self.deployment, outcome, self.reason or identity.by, hangs=hangs)


class RollBackOperator(StreamOperator):
    """Give the stream back to the deployment that held it before `deployment` did.

    While that is warm this is a hand-over; else its release is submitted again and rehearsed. A holder that does not
    release in time is fenced. Skipped when `deployment` does not hold, or when there is no release to go back to; a
    stream that this run has stopped, and that has no holder, is started again with the release that held last.

    :param fault: the fault of `deployment`. Empty: nothing was; it then stays when it holds, and the task fails: an
        error of Airflow is no reason to take a release back. None: the person who runs this knows it. (templated)

    XCom: as of HandOverOperator.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "fault")

    WAIT_SECONDS = 1500.0
    OPERATION = Operation.ROLL_BACK
    CHANGES_HOLDER = True

    def __init__(self, *, fault: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fault = fault

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.roll_back import roll_back

        why = self.reason or self.fault or identity.by
        return roll_back(snapshot, identity, self.deployment, outcome, why, fault_found=self.fault != "")


class StartStreamOperator(ReleaseOperator):
    """Start a stream that has no holder: submit a release, wait until it is up, appoint it.

    A driver that is lost before it holds is followed by another one, up to three, and by one more whenever the task is
    retried or cleared; not one that says why it has failed, nor once somebody has stopped the stream. Nothing is done
    when the wanted version runs already and its driver is alive; fails when that is dead, and when another version
    holds. XCom: as of HandOverOperator.
    """

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True

    @override
    def begin(self, context: Context) -> None:

        super().begin(context)
        self.say_first(Operation.START, self.requested)

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.start import start

        return start(snapshot, identity, self.requested.version, outcome, self.reason or identity.by)

    @override
    def subject(self, identity: TaskIdentity) -> str:
        from airflow_stream_provider.lifecycle.state import StreamState
        from airflow_stream_provider.planning.start import own_tries

        state = self.hook.control_log.refresh() if self.hook.exists() else StreamState()
        return own_tries(state, identity, self.stream.name, self.requested.version)[-1]
