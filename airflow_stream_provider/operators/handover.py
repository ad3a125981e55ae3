"""Hand a stream over to another deployment, and roll it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def with_gaps(snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
    """Add how the change of holder went: `boundary`, `ends` (last batch by query), `gap_seconds` by query."""
    from airflow_stream_provider.hooks.gaps import gaps

    request = done.get("request")
    acquired = next((record for record in snapshot.acquisitions() if request and record["request"] == request), None)
    if acquired is None:
        return dict(done)
    # Also where it stopped for another request, as with the strategy `restart`.
    return {**done, **snapshot.release_before(acquired), "gap_seconds": gaps(snapshot, acquired)}


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
        from airflow_stream_provider.hooks.holder_hangs import holder_hangs
        from airflow_stream_provider.planning.take_over import take_over

        # Only of the drivers that are about to be asked.
        asks = not snapshot.holds(self.deployment) and snapshot.state.open_request is None
        may = asks and snapshot.candidate(self.deployment) is not None
        hangs = holder_hangs(self.hook, self.stream, snapshot) if may else ""
        return take_over(snapshot, identity, self.deployment, outcome, self.reason or identity.by, hangs=hangs)

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return with_gaps(snapshot, done)


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

    @override
    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return with_gaps(snapshot, done)
