"""The operators of an upgrade: bring a standby up, judge its rehearsal, soak what took over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import HandOverFailed, RehearsalRefused, SpecError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.lineage import TellsLineage
from airflow_stream_provider.operators.release import ReleaseOperator
from airflow_stream_provider.operators.stream import HandOverOperator
from airflow_stream_provider.spec.spark_versions import TRY_IT, untried
from airflow_stream_provider.spec.stream import Strategy, StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.record import Record
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.planning.comparison import Comparison
    from airflow_stream_provider.planning.scene import Scene
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity, Wait, Want
    from airflow_stream_provider.planning.verbs import Answer
    from airflow_stream_provider.planning.waits import WaitOutcome


class _CheckedReleaseOperator(ReleaseOperator):
    """Base of the operators that bring in the release of an upgrade, as it was checked before.

    :param checked: `release` in the XCom of CheckReleaseOperator, or its JSON: what was checked is wished then, though
        files, YAML or form have changed since; default: what they say now is published. (templated)
    :param redeployed: whether it is a stored release, which `upgrade.on_change` leaves alone. (templated)
    :param rewind: as CheckReleaseOperator was given it. (templated)
    :param unasked: as CheckReleaseOperator was given it. (templated)
    :param stored: as CheckReleaseOperator was given it. (templated)
    """

    template_fields: Sequence[str] = (
        *ReleaseOperator.template_fields,
        "checked",
        "redeployed",
        "rewind",
        "unasked",
        "stored",
    )

    def __init__(
        self,
        *,
        checked: Mapping[str, Any] | str | None = None,
        redeployed: bool | str = False,
        rewind: str = "",
        unasked: bool | str = False,
        stored: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rewind = rewind
        self.unasked = unasked
        self.stored = stored
        self.checked = checked
        self.redeployed = redeployed

    def deploy(self, scene: Scene, **how: Any) -> Answer:
        """Return the wish that brings the release in; `how`: see `verbs.stand_by`."""
        from airflow_stream_provider.hooks.compare import refuse_unasked
        from airflow_stream_provider.planning.rewind import read_rewind
        from airflow_stream_provider.planning.verbs import stand_by

        if str(self.unasked) == "True":  # since `check`, a person may have gone back
            refuse_unasked(self.hook, scene.state, self.stream, scene.me.run, self.stored)
        rewind = read_rewind(self.rewind)
        return stand_by(
            scene,
            self.reason or scene.me.by,
            self._asked_at,
            approval=self.stream.upgrade.approval,
            redeployed=str(self.redeployed) == "True",
            rewind=None if rewind is None else rewind.to_json(),
            **how,
        )

    @override
    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        if not step.publish:
            return super().want(step, snapshot, identity)
        return self.hook.wish(step, identity.by, snapshot.state.seq, self.requested, self._release)

    @property
    def _release(self) -> Release | None:
        """The release that was checked; None: the one that files, YAML and form describe now."""
        from airflow_stream_provider.lifecycle.release import Release

        try:
            found = json.loads(self.checked or "null") if isinstance(self.checked, str) else self.checked
            return Release.from_json(found) if found else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SpecError(
                "`checked` is not what CheckReleaseOperator leaves as `release` in its XCom.",
                next_step="Pull that, with `| tojson`, or leave `checked` out.",
            ) from error


class SubmitStandbyOperator(TellsLineage, _CheckedReleaseOperator):
    """Publish and submit a release, and wait until it is up, rehearsed and warm. The holder is not touched.

    A driver that stood by before makes room for it. Fails when the rehearsal is refused, when the driver never comes
    up, or when the cluster has no room for it: the message says what is free and what was asked for. Also when somebody
    else has stopped the stream since the run was triggered, which may have waited for another one.

    XCom: `deployment`, `version`, `incarnation`, `rehearsal` (its summary by query), `holder` and `epoch` at that time;
    under the key `family`, before anything else, what later tasks know the release by.
    """

    @override
    def wish(self, scene: Scene) -> Answer:
        return self.deploy(scene)


class TakeOverOperator(HandOverOperator, _CheckedReleaseOperator):
    """Let the release of an upgrade take over: by a hand-over or, where there is no room for two, by a restart.

    With the strategy `restart` the task brings the release in itself: the holder stops at a batch boundary, then the
    driver of the release comes up and holds. Where it does not, the release before is brought back.

    :param strategy: `handover` or `restart`, as `check` has left it in XCom. With `upgrade.approval` only the YAML's.
        (templated)

    XCom: as of HandOverOperator; under the key `family`, before anything else, what later tasks know the release by.
    """

    template_fields: Sequence[str] = (*_CheckedReleaseOperator.template_fields, "approved", "strategy")

    WAIT_SECONDS = 1500.0

    def __init__(self, *, strategy: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.strategy = strategy

    @property
    def _alone(self) -> bool:
        # Without the answer of `check` the old release runs on. And a forged XCom stops nothing that the YAML does
        # not stop.
        restart = self.strategy == Strategy.RESTART.value
        return restart and self.stream.chosen_strategy(self.strategy) is Strategy.RESTART

    @override
    def begin(self, context: Context) -> None:
        super().begin(context)
        if not self._alone:
            context["ti"].xcom_push(key="family", value=self.family)

    @override
    def wish(self, scene: Scene) -> Answer:
        return self.deploy(scene, alone=True, approved=self.approved) if self._alone else super().wish(scene)


class JudgeRehearsalOperator(StreamOperator):
    """Compare what a standby rehearsed with what the holder does, and doubt one that may not keep up.

    Spark's own refusals end the standby before this. The verdict is `inconclusive`, and a person is asked, where a
    query took longer than the stream's `lag.max_seconds` for each batch of live data, where it is more than twice as
    slow as the holder without much to spare, where the rehearsal's time was over before its batches had run, and where
    rows or state cannot be compared. It refuses none: no number tells a slow release from a busy machine. Without a
    holder there is nothing to compare with, and nothing to wait for.

    XCom: `verdict` (pass, inconclusive), `reasons` for it, `queries` (by name: `verdict`, `sentence`, `slower` and the
    numbers of both sides, `new` and `old`), and `notes`.
    """

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return Done with the comparison; the same again after the deployment has taken over.

        In doubt it waits until it is known whether the holder is alive.
        """
        from airflow_stream_provider.planning.comparison import Compared
        from airflow_stream_provider.planning.judgement import judge_rehearsal
        from airflow_stream_provider.planning.steps import Done, GiveUp, Wait

        mine = self.subject(snapshot.state, identity)
        standby = next(iter(reversed(snapshot.state.of_deployment(mine))), None)
        if standby is None:
            why = f"{mine or 'The release'} has not been rehearsed."
            return GiveUp(RehearsalRefused(why, next_step="Submit it first, in a new run."))
        judged = judge_rehearsal(snapshot, standby, self.stream.lag.max_seconds)
        for line in judged.table():
            self.log.info("%s", line)
        notes = [*standby.rehearsal.get("notes", []), *_versions(snapshot, standby.id)]
        result = {"deployment": mine, **judged.to_json(), "notes": notes}
        if not judged.reasons:
            return Done(result)
        broken = self._broken(snapshot, outcome)
        if isinstance(broken, Wait):
            return broken
        if broken:
            notes.append(f"{broken} So this does not hold the upgrade up: {' '.join(judged.reasons)}")
            self.log.warning("%s", notes[-1])
            return Done({**result, "verdict": Compared.PASS.value, "reasons": []})
        return Done(result)

    def _broken(self, snapshot: Snapshot, outcome: WaitOutcome | None) -> str | Wait:
        """Return why a release that may be slower is better than what runs, as a sentence; empty when it is not.

        A sign of life of the holder is waited for first.
        """
        from airflow_stream_provider.hooks.about_drivers import holder_hangs
        from airflow_stream_provider.planning.judgement import broken
        from airflow_stream_provider.planning.signs_of_life import SignsOfLife
        from airflow_stream_provider.planning.steps import Wait

        holder, alive = snapshot.state.holder, SignsOfLife.found(outcome, snapshot)
        if holder is None or snapshot.state.must_fence:
            return broken(snapshot, lost=False)
        if holder not in alive:
            return Wait(SignsOfLife({holder: snapshot.counter(holder)}, snapshot.lease([holder])))
        return broken(snapshot, lost=not alive[holder]) or holder_hangs(self.hook, self.stream, snapshot)


def _versions(snapshot: Snapshot, standby: str) -> list[str]:
    """Return a note where both sides run on different versions of Spark, and one where the new side's is untried."""
    beats = snapshot.heartbeats.get(standby), snapshot.holder_heartbeat
    new, old = (beat.spark_version if beat else "" for beat in beats)
    notes = [f"The new release runs on Spark {new}, and the one that holds on {old}."] if new and old != new else []
    return [*(notes if old else []), *([f"{text} {TRY_IT}"] if (text := untried(new)) else [])]


class SoakOperator(TellsLineage, StreamOperator):
    """Watch a release from the moment it took over, for the stream's `upgrade.soak`; fail as soon as it is no good.

    It is no good when it failed, lost the stream, gives no sign of life, has a query that has failed for a minute and
    has never committed, or stays too far behind Kafka without catching up; see `planning.soak`. The reason is pushed as
    XCom `fault`: without it nothing is rolled back.

    Neither lag nor pace is judged of a release that reads records again.

    A release that keeps these limits is compared at the end with how the one before did until it gave the stream up.
    The soak is inconclusive where that does not pass, and where the lag stays unknown: the task fails, the reason is
    pushed as XCom `inconclusive`, and the release stays, for a person to decide.

    :param seconds: how long; default: the YAML's `upgrade.soak`. It lasts longer, up to `wait_seconds`, while it
        is too early to say whether a release that is too far behind catches up, or while its lag is not known.

    XCom: `result` (good, superseded), `lag_records` at the end and `lag_records_first`, as the release before had left
    it, and `samples`; under the key `comparison` what JudgeRehearsalOperator leaves, also when the task has failed.
    """

    def __init__(
        self,
        *,
        stream: StreamSpec,
        seconds: float | None = None,
        wait_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        soak = stream.upgrade.soak if seconds is None else seconds
        wait = soak + self.WAIT_SECONDS if wait_seconds is None else wait_seconds
        super().__init__(stream=stream, wait_seconds=wait, **kwargs)
        self.seconds = soak
        self._compared: Comparison | None = None

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.conditions import Soaked
        from airflow_stream_provider.planning.soak import SoakLimits, SoakResult
        from airflow_stream_provider.planning.steps import Done, GiveUp, Wait
        from airflow_stream_provider.planning.waits import Ended

        # Of several deployments of the release, the one that held last: the watch may have started it again.
        known = {each.id: each for each in snapshot.state.family(self.family)}
        held = [r for r in snapshot.acquisitions() if deployment_of(r["incarnation"]) in known]
        if not held:
            why = f"{self.subject(snapshot.state, identity) or 'The release'} never held the stream."
            return GiveUp(HandOverFailed(why, next_step="Hand over to it first."))
        mine = known[deployment_of(held[-1]["incarnation"])]
        # Records that are read again are behind, and that is no fault of the release.
        rewinds = any(each.rewind is not None for each in known.values())
        if outcome is None:
            lag = self.stream.lag.limits if self.stream.kafka and not rewinds else None
            limits = SoakLimits.of(lag, mine.policy.lease_seconds)
            return Wait(Soaked(mine.id, held[0].at + self.seconds, limits.to_json(), identity.run))
        superseded = outcome.ended is Ended.REACHED and outcome.reason
        self._compared = None if superseded or rewinds else self._compare(snapshot, held[0])
        if outcome.ended is Ended.REACHED:
            if self._compared is not None and self._compared.reasons:
                return GiveUp(self._inconclusive(snapshot, self._compared))
            result = SoakResult.SUPERSEDED if outcome.reason else SoakResult.GOOD
            return Done({"stream": snapshot.stream, "result": result.value, "note": outcome.reason, **outcome.evidence})
        why = f"Release {mine.release.version} ({mine.id}) is no good: {outcome.reason}"
        return GiveUp(HandOverFailed(why, next_step="Roll back."))

    def _compare(self, snapshot: Snapshot, acquired: Record) -> Comparison | None:
        """Compare the holder with the one before this release first acquired the stream; None: there was none."""
        from airflow_stream_provider.planning.comparison import compare, running

        before = [record["incarnation"] for record in snapshot.acquisitions() if record.seq < acquired.seq]
        holder = snapshot.holder_heartbeat
        old = snapshot.heartbeats.get(before[-1]) if before else None
        if holder is None or old is None:
            return None
        found = compare(running(holder), running(old))
        for line in found.table():
            self.log.info("%s", line)
        return found

    def _inconclusive(self, snapshot: Snapshot, found: Comparison) -> HandOverFailed:
        return HandOverFailed(
            f"The soak is inconclusive, and nothing is rolled back. {' '.join(found.reasons)} "
            f"{snapshot.holder_sentence}",
            next_step="Look at the Spark UI. Clear this task to compare again, or roll back by hand: "
            "`airflow streams roll-back`.",
        )

    def resume(self, context: Any, event: Any = None) -> Any:
        """Push the fault where the roll-back finds it, then go on; and what was compared."""
        from airflow_stream_provider.planning.waits import Ended, WaitOutcome

        outcome = WaitOutcome.from_event(event)
        if outcome.ended is Ended.BAD:
            context["ti"].xcom_push(key="fault", value=outcome.reason)
        try:
            return super().resume(context, event)
        except AirflowFailException as error:
            if outcome.ended is not Ended.BAD:
                context["ti"].xcom_push(key="inconclusive", value=str(error))
            raise
        finally:
            if self._compared is not None:
                context["ti"].xcom_push(key="comparison", value=self._compared.to_json())
