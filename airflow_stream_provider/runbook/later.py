"""The end of an upgrade run: schedule the old release's retirement, and report how the run ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.notifications.upgrade import LINE
from airflow_stream_provider.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity
    from airflow_stream_provider.planning.waits import WaitOutcome
    from airflow_stream_provider.spec.stream import StreamSpec


def seconds_left(spec: StreamSpec) -> float:
    """Return for how many seconds an old release is kept once the soak is over: it is kept from the hand-over on."""
    return max(0.0, spec.upgrade.keep_previous - spec.upgrade.soak)


class RetireLaterOperator(TriggerDagRunOperator):
    """Trigger the DAG that retires the old release, with a `run_after` of `upgrade.keep_previous` after the hand-over.

    It is a run of its own so that the next upgrade need not wait for it. A queued run holds no slot.

    :param stream: the stream, as read by `load_spec`.
    :param previous: deployment to retire; skipped when empty. (templated)
    """

    template_fields = (*TriggerDagRunOperator.template_fields, "previous")

    def __init__(self, *, stream: StreamSpec, previous: str, **kwargs: Any) -> None:
        super().__init__(skip_when_already_exists=True, **kwargs)
        self.stream = stream
        self.previous = previous

    @override
    def execute(self, context: Context) -> None:
        if not self.previous:
            raise AirflowSkipException("No release ran before this one.")
        self.conf = {"deployment": self.previous}
        self.run_after = datetime.fromtimestamp(datetime.now(UTC).timestamp() + seconds_left(self.stream), UTC)
        super().execute(context)


class ReportUpgradeOperator(StreamOperator):
    """Report from the control log how the run ended.

    Fails unless the new release took over and passed its soak, or a person said no.

    :param soaked: result of the soak (good or superseded); empty when it failed or never began. (templated)
    :param fault: why the soak failed; empty when it did not. (templated)
    :param rejected_by: the person who refused the hand-over; empty when there was none. (templated)
    :param handed: XCom of the hand-over, as JSON; ``null``: there was none. (templated)
    :param back: XCom of the roll-back, the same way. (templated)

    XCom: `deployment`, `version`, `holder` and `result` (good, superseded, rejected), with `by` when rejected; under
    the key `line`, also of a task that fails, the story in one line: gap, lost and doubled records, the holder before
    and how long that stays warm.
    """

    template_fields: Sequence[str] = (
        *StreamOperator.template_fields,
        "soaked",
        "fault",
        "rejected_by",
        "handed",
        "back",
    )

    def __init__(
        self,
        *,
        soaked: str,
        fault: str,
        rejected_by: str = "",
        handed: str = "null",
        back: str = "null",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.soaked = soaked
        self.fault = fault
        self.rejected_by = rejected_by
        self.handed = handed
        self.back = back

    @override
    def execute(self, context: Context) -> Any:
        try:
            found = super().execute(context)
        except AirflowFailException as error:
            context["ti"].xcom_push(key=LINE, value=str(error))
            raise
        context["ti"].xcom_push(key=LINE, value=found.pop(LINE))
        return found

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return {**done, LINE: self._line(snapshot, done)}

    def _line(self, snapshot: Snapshot, done: Mapping[str, Any]) -> str:
        from airflow_stream_provider.planning.outcome import kept_warm, took_over

        version, result = done["version"], done["result"]
        if result == "rejected":
            what = f"Release {version}" if version else "The new release"
            return f"{what} was called off: {done['by']} said no. {snapshot.holder_sentence}"
        handed = json.loads(self.handed) or {}
        before = snapshot.state.deployments.get(handed.get("previous") or "")
        kept = ""
        if before is not None:
            until = time.time() + seconds_left(self.stream) if before.ended is None else None
            kept = kept_warm(before.release.version, until)
        line = took_over(version, before.release.version if before else "", handed, kept)
        line = " ".join(filter(None, (line, self._read_again(snapshot))))
        return f"{line} {snapshot.holder_sentence}" if result == "superseded" else line

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.lifecycle.state import DeploymentEnd
        from airflow_stream_provider.planning.outcome import went
        from airflow_stream_provider.planning.steps import Done

        known, held = snapshot.state.family(self.family), snapshot.state.has_run(self.family)
        version = known[-1].release.version if known else ""
        rejected = {"result": "rejected", "by": self.rejected_by} if self.rejected_by and not held else {}
        how = {"result": self.soaked} if self.soaked and known else rejected
        if how:  # with the strategy `restart`, nothing is submitted before the yes
            deployment = known[-1].id if known else ""
            found = {"stream": snapshot.stream, "deployment": deployment, "version": version}
            return Done({**found, "holder": snapshot.holding, **how})
        if not known:
            return self._failed("Nothing was submitted; the task that failed says why.", snapshot)
        if held:
            if snapshot.holding in {each.id for each in known}:
                why = self.fault or "No fault was found, but it did not pass its soak."
                if self.rejected_by:  # somebody else has promoted it meanwhile
                    why = f"{self.rejected_by} said no, too late. Roll it back if it shall not stay."
                holds = "still holds" if len(known) == 1 else f"holds as {snapshot.holding}"
                return self._failed(f"Release {version} took over and {holds}. {why}", snapshot)
            back = " Rolled back." if self._rolled_back(snapshot) else ""
            said = (went(json.loads(self.back) or {}) if back else "", self._read_again(snapshot))
            gap = "".join(f" {each}" for each in said if each)
            return self._failed(f"Release {version} took over and did not stay. {self.fault}{back}{gap}", snapshot)
        if known[-1].ended is DeploymentEnd.FAILED:
            return self._failed(f"Release {version} was refused: {snapshot.why_ended(known[-1].id)}", snapshot)
        return self._failed(f"Release {version} did not take over.", snapshot)

    def _read_again(self, snapshot: Snapshot) -> str:
        """The records that were doubled on purpose; empty: none were."""
        from airflow_stream_provider.planning.outcome import read_again

        rewind = next((each.rewind for each in snapshot.state.family(self.family) if each.rewind is not None), None)
        beat = snapshot.holder_heartbeat
        return "" if rewind is None else read_again(rewind.to, beat.rewind if beat is not None else "")

    def _rolled_back(self, snapshot: Snapshot) -> bool:
        """Whether the release that ran before holds the stream."""
        state, held = snapshot.state, snapshot.state.holding_deployment
        before = [snapshot.previous(each.id) for each in state.family(self.family) if state.has_held(each.id)]
        return held is not None and bool(before) and state.akin(held.id, before[0])

    def _failed(self, sentence: str, snapshot: Snapshot) -> Step:
        from airflow_stream_provider.planning.steps import GiveUp

        return GiveUp(HandOverFailed(sentence, next_step=snapshot.holder_sentence))
