"""Watch a new release before the upgrade counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class SoakOperator(StreamOperator):
    """Watch a deployment from the moment it took over, for the stream's `upgrade.soak`; fail as soon as it is no good.

    It is no good when it failed, lost the stream, gives no sign of life, or stays too far behind Kafka without catching
    up; see `planning.soak`. The reason is pushed as XCom `fault`: without it nothing is rolled back.

    :param seconds: how long; default: the YAML's `upgrade.soak`. It lasts longer, up to `wait_seconds`, while it
        is too early to say whether a release that is too far behind catches up, or while its lag is not known.

    XCom: `result` (good, superseded), `lag_records` and `samples`.
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
            lag = self.stream.lag.limits if self.stream.kafka else None
            limits = SoakLimits.of(lag, lease)
            return Wait(Soaked(self.deployment, mine[0].at + self.seconds, limits.to_json(), identity.run))
        if outcome.ended is Ended.REACHED:
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

    def resume(self, context: Any, event: Any = None) -> Any:
        """Push the fault where the roll-back finds it, then go on."""
        from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

        outcome = WaitOutcome.from_event(event)
        if outcome.ended is Ended.BAD:
            context["ti"].xcom_push(key="fault", value=outcome.reason)
        return super().resume(context, event)
