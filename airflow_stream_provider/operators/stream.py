"""The operators of a whole stream: start, restart, stop, hand over, roll back, call off, fence, retire."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator, WishOperator
from airflow_stream_provider.operators.lineage import TellsLineage
from airflow_stream_provider.operators.release import ReleaseOperator

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.state import StreamState
    from airflow_stream_provider.lifecycle.trial import Trial
    from airflow_stream_provider.planning.scene import Scene
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity
    from airflow_stream_provider.planning.verbs import Answer
    from airflow_stream_provider.planning.waits import Needs, WaitOutcome


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


class RetireOperator(StreamOperator):
    """End a deployment that does not hold the stream: its driver exits, and is killed if it does not.

    Skipped when it holds the stream, or is not known. XCom: `retired`, `version`.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.retire import end
        from airflow_stream_provider.planning.scene import Scene

        return end(Scene(snapshot, identity, outcome), self.deployment, self.reason or identity.by)

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.waits import Needs

        return Needs(drivers=(self.deployment,) if self.deployment in snapshot.state.deployments else ())


class AbortOperator(WishOperator):
    """Call off a release that comes up or stands by and has never held the stream; what was to hold before goes on.

    Its driver is ended. Fails when it has come to hold meanwhile. The run that brought it up fails by itself.

    :param deployment: of the release that is called off; default: the newest one. (templated)

    XCom: `retired`, the deployment that was ended, or empty; `version`, `holder`.
    """

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.steps import Skip
        from airflow_stream_provider.planning.verbs import withdraw

        known = scene.state.deployments.get(self.deployment)
        if self.deployment and known is None:
            return Skip(f"There is no deployment {self.deployment!r}.")
        family = known.family if known is not None else self.family
        return withdraw(scene, family, self.reason or scene.me.by)

    @override
    def left(self, state: StreamState, identity: TaskIdentity) -> Iterable[str]:
        from airflow_stream_provider.planning.retire import never_held

        return never_held(state)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        from airflow_stream_provider.lifecycle.state import DeploymentEnd

        wish = snapshot.state.wish
        since = wish.seq if wish is not None else 0
        ended = [d for d in snapshot.state.deployments.values() if d.ended is DeploymentEnd.RETIRED]
        found = [each for each in ended if each.ended_seq > since and not snapshot.state.has_run(each.family)]
        last = {"retired": found[-1].id, "version": found[-1].release.version} if found else {"retired": ""}
        return {"stream": snapshot.stream, "holder": snapshot.holding, "version": "", **last}


class StopStreamOperator(WishOperator):
    """Stop the stream at a batch boundary, and end every driver of it. Done when all of them are confirmed gone.

    A stream without a holder is stopped, too: the watch then leaves it alone until a person starts it.

    :param for_good: whether it is stopped for good; default False.

    XCom: `stopped`, `holder` (empty), `request`, `offsets` by query: topic, partition, offset of the first record that
    is not committed. If a holder released for this very stop, also `boundary` (completed or interrupted) and `ends`
    (the last batch by query).
    """

    def __init__(self, *, for_good: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.for_good = for_good

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.verbs import stop

        return stop(scene, self.reason or scene.me.by, for_good=self.for_good)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add where each query stopped: `boundary`, `ends` and `offsets`."""
        from airflow_stream_provider.hooks.lag import committed_offsets

        ends = snapshot.release_for(done["request"]) if done["request"] else {}
        where = (self.stream.name, self.stream.control)
        offsets = committed_offsets(*where, snapshot.state, snapshot.heartbeats)
        # Through JSON: partitions are numbers here, and the keys of an XCom are text.
        return {**done, **ends, "offsets": json.loads(json.dumps(offsets))}


class HandOverOperator(TellsLineage, WishOperator):
    """Make a release that stands by the holder: by a hand-over at a batch boundary or, without a holder, at once.

    The task wishes it and waits; the two drivers do the rest through the control log. A dead holder is fenced first:
    killed and confirmed gone; so is one that hangs (`planning.hanging`), which is not asked. Fails when the old holder
    kept the stream or took it back; the stream then runs, and the message says which deployment holds it.

    :param approved: by which verdict or by whom it was approved; empty: by none. Then a release that needs an
        approval does not take over. (templated)

    XCom: `deployment`, `version`, `previous` (deployment), `holder`, `epoch`, `request`, `family`, `boundary`
    (completed or interrupted), `ends` (the last batch by query), `gap_seconds` by query as far as it is known.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "approved")

    CHANGES_HOLDER = True

    def __init__(self, *, approved: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved = approved

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.verbs import hand_over

        return hand_over(scene, self.family, self.reason or scene.me.by, self.approved)

    @override
    def hangs(self, snapshot: Snapshot, identity: TaskIdentity) -> str:
        from airflow_stream_provider.hooks.about_drivers import holder_hangs

        # Only of a holder that is about to be asked: Kafka has to be.
        state, held = snapshot.state, snapshot.state.holding_deployment
        mine = state.wishes.get(identity.wish)
        if held is None or state.open_request is not None or (mine is not None and mine.fulfilled_by(held.declared)):
            return ""
        return holder_hangs(self.hook, self.stream, snapshot)


class PromoteOperator(HandOverOperator):
    """Make the newest release that stands by the holder now; for an upgrade that does not go on.

    :param deployment: of that release; default: the newest one that stands by. (templated)

    XCom: as of HandOverOperator.
    """

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.verbs import promote

        known = scene.state.deployments.get(self.deployment)
        family = known.family if known is not None else ""
        return promote(scene, self.reason or scene.me.by, family, self.approved)


class RollBackOperator(TellsLineage, WishOperator):
    """Give the stream back to the release that was to hold before.

    While that is warm this is a hand-over; else it is submitted again. A holder that does not release in time is
    fenced. In a run that has wished something, with `fault`: the state that was wished for before that is wished for
    again, and every deployment of the run that is not needed is ended.

    :param deployment: by hand: the one whose release was foreseen to hold then; fails when that is another one now.
        Default: whichever it is. (templated)
    :param fault: what was found wrong with what this run has put in charge. Empty: nothing was; that then stays, and
        the task fails: an error of Airflow is no reason to take a release back. None: the person who runs this knows
        it. (templated)
    :param well: not empty: the run has ended well, and there is nothing to undo. (templated)

    XCom: as of HandOverOperator.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "fault", "well")

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True

    def __init__(self, *, fault: str | None = None, well: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fault = fault
        self.well = well

    @override
    def begin(self, context: Context) -> None:
        if self.well or not self.hook.exists():
            raise AirflowSkipException("It went well, or nothing was begun: there is nothing to undo.")

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.verbs import roll_back, undo

        why = self.reason or self.fault or scene.me.by
        if self.fault is not None:
            return undo(scene, self.fault, why)
        known = scene.state.deployments.get(self.deployment)
        return roll_back(scene, why, known.family if known is not None else self.deployment)

    @override
    def left(self, state: StreamState, identity: TaskIdentity) -> Iterable[str]:
        if self.fault is None:
            return ()
        mine = {each.id for each in state.wishes.values() if each.by.startswith(identity.run)}
        return {each.family for each in state.deployments.values() if each.family in mine}


class TrialOperator(WishOperator):
    """Measure settings against the present ones: in a driver beside the holder, on clones, the same batches in turns.

    The driver runs the release that holds, and never comes to hold. It is ended when it has measured.

    :param conf: SQL settings, each as ``NAME=VALUE``, or their JSON. (templated)
    :param options: of the Kafka sources, as `conf`. (templated)
    :param persist: whether the batches are persisted before the function of foreachBatch gets them. (templated: `True`
        or `False`)

    XCom: `tried`, by query the ratio of the medians of seconds per record with its spread; `sentences`, `deployment`.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "conf", "options", "persist")

    WAIT_SECONDS = 3600.0

    def __init__(
        self,
        *,
        conf: Sequence[str] | str = (),
        options: Sequence[str] | str = (),
        persist: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conf = conf
        self.options = options
        self.persist = persist

    @override
    def begin(self, context: Context) -> None:
        from airflow_stream_provider.planning.operation import check_reason

        self.reason = check_reason(self.reason)

    @property
    def trial(self) -> Trial:
        """The settings that are tried.

        :raises SpecError: a trial cannot change them.
        """
        from airflow_stream_provider.planning.trial import trial_of

        conf, options = (json.loads(each) if isinstance(each, str) else each for each in (self.conf, self.options))
        return trial_of(conf, options, persist=str(self.persist) == "True")

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.scene import Scene
        from airflow_stream_provider.planning.trial import next_step

        return next_step(Scene(snapshot, identity, outcome), self.trial, self.reason or identity.by)


class StartStreamOperator(TellsLineage, ReleaseOperator):
    """Start a stream that has no holder: submit a release, wait until it is up, appoint it.

    A driver that is lost before it holds is followed by another one, by this task or by the watch. Nothing is done when
    the wanted version runs already and its driver is alive; fails when another version holds. XCom: as of
    HandOverOperator.
    """

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True
    ANEW: ClassVar[bool] = False
    """Whether a holder stops first."""

    @override
    def wish(self, scene: Scene) -> Answer:
        from airflow_stream_provider.planning.verbs import start

        release, _ = self.requested.make()
        approval = self.stream.upgrade.approval
        why = self.reason or scene.me.by
        return start(
            scene,
            release.version,
            why,
            anew=self.ANEW,
            approval=approval,
            hash=release.hash,
            since=self._asked_at,
        )


class RestartStreamOperator(StartStreamOperator):
    """Stop the holder at a batch boundary, then start a new driver of the same version, with the YAML's settings.

    A stream without a holder is started. Should the task die in between, the watch starts it. Fails when another
    version holds: that is an upgrade. XCom: as of HandOverOperator.
    """

    ANEW = True
