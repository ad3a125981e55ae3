"""Watch a new release before the upgrade counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.goals import Soaked
from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Done, GiveUp, Step, Wait
from airflow_stream_provider.model.errors import HandOverFailed
from airflow_stream_provider.model.judge import Verdict
from airflow_stream_provider.model.names import deployment_of
from airflow_stream_provider.operators.base import StreamOperator


class SoakOperator(StreamOperator):
    """Watch a deployment from the moment it took over, for the stream's `upgrade.soak`; fail as soon as it is no good.

    It is no good when it failed, lost the stream, gives no sign of life, or is too far behind Kafka, several times in a
    row, as the stream's watch and sensors judge it too. The reason is left in the XCom `verdict` for the roll-back.

    :param seconds: how long; default: the YAML's `upgrade.soak`.

    XCom: `verdict` (good, superseded), `lag_records` and `samples`.
    """

    def __init__(self, *, seconds: float | None = None, **kwargs: Any) -> None:
        self.seconds = kwargs["stream"].upgrade.soak if seconds is None else seconds
        kwargs.setdefault("wait_seconds", self.seconds + self.WAIT_SECONDS)
        super().__init__(**kwargs)

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        mine = [r for r in view.acquisitions() if deployment_of(r["incarnation"]) == self.deployment]
        if not mine:
            return GiveUp(HandOverFailed(f"{self.deployment} never held the stream.", todo="Hand over to it first."))
        if outcome is None:
            lease = float(view.state.deployments[self.deployment].policy.get("lease_seconds", 30.0))
            limits = replace(self.stream.limits, silent_seconds=2 * lease)
            return Wait(Soaked(self.deployment, mine[0].at + self.seconds, limits.to_json(), author.run))
        if outcome.ended is Ended.REACHED:
            verdict = Verdict.SUPERSEDED if outcome.reason else Verdict.GOOD
            return Done({"stream": view.stream, "verdict": verdict.value, "note": outcome.reason, **outcome.evidence})
        return GiveUp(
            HandOverFailed(
                f"Release {view.state.deployments[self.deployment].release['version']} ({self.deployment}) is no good: "
                f"{outcome.reason}",
                todo="Roll back.",
            )
        )

    def resume(self, context: Any, event: Any = None) -> Any:
        """Leave the verdict where the roll-back finds it, then go on."""
        outcome = Outcome.from_event(event)
        if outcome.ended is Ended.LOST:
            context["ti"].xcom_push(key="verdict", value=outcome.reason)
        return super().resume(context, event)
