"""The strategy `restart`, for a cluster without room for two applications: stop the old release first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.operators.stop import StopStreamOperator
from airflow_stream_provider.spec.stream import Strategy

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class StopFirstOperator(StopStreamOperator):
    """Stop the stream if the upgrade's strategy is `restart`; skipped otherwise. A holder that hangs is fenced.

    With `upgrade.approval` only if the YAML says so, whatever is in XCom: no person has been asked yet.

    :param strategy: as `check` has left it in XCom. (templated)
    """

    template_fields: Sequence[str] = (*StopStreamOperator.template_fields, "strategy")

    def __init__(self, *, strategy: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.strategy = strategy

    @override
    def execute(self, context: Context) -> Any:
        if self.strategy != Strategy.RESTART.value:
            raise AirflowSkipException("The old release runs until the new one takes over.")
        if self.stream.problem:
            # The new release could not be submitted. Not a SpecError: the file may be mended when this is retried.
            raise StreamError(self.stream.problem)
        with failing_without_retry():
            self.stream.chosen_strategy(self.strategy)
        return super().execute(context)

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.hooks.holder_hangs import holder_hangs
        from airflow_stream_provider.planning.stop import stop

        hangs = "" if snapshot.state.open_request else holder_hangs(self.hook, self.stream, snapshot)
        return stop(snapshot, identity, outcome, self.reason or identity.by, hangs=hangs, restarts=True)
