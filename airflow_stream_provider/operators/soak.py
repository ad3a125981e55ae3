"""Watch a new release before the upgrade counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.record import Record
    from airflow_stream_provider.planning.comparison import Comparison
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class SoakOperator(StreamOperator):
    """Watch a deployment from the moment it took over, for the stream's `upgrade.soak`; fail as soon as it is no good.

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
        from airflow_stream_provider.planning.wait_outcome import Ended

        mine = [r for r in snapshot.acquisitions() if deployment_of(r["incarnation"]) == self.deployment]
        if not mine:
            return GiveUp(
                HandOverFailed(f"{self.deployment} never held the stream.", next_step="Hand over to it first.")
            )
        if outcome is None:
            lease = snapshot.state.deployments[self.deployment].policy.lease_seconds
            # Records that are read again are behind, and that is no fault of the release.
            rewinds = snapshot.state.deployments[self.deployment].rewind is not None
            lag = self.stream.lag.limits if self.stream.kafka and not rewinds else None
            limits = SoakLimits.of(lag, lease)
            return Wait(Soaked(self.deployment, mine[0].at + self.seconds, limits.to_json(), identity.run))
        superseded = outcome.ended is Ended.REACHED and outcome.reason
        rewinds = snapshot.state.deployments[self.deployment].rewind is not None
        self._compared = None if superseded or rewinds else self._compare(snapshot, mine[0])
        if outcome.ended is Ended.REACHED:
            if self._compared is not None and self._compared.reasons:
                return GiveUp(self._inconclusive(snapshot, self._compared))
            result = SoakResult.SUPERSEDED if outcome.reason else SoakResult.GOOD
            return Done({"stream": snapshot.stream, "result": result.value, "note": outcome.reason, **outcome.evidence})
        return GiveUp(
            HandOverFailed(
                f"Release {snapshot.state.deployments[self.deployment].release.version} "
                f"({self.deployment}) is no good: "
                f"{outcome.reason}",
                next_step="Roll back.",
            )
        )

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
        from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

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
