"""Stop the whole stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.operation import Operation

if TYPE_CHECKING:
    from airflow_stream_provider.planning.condition import Needs
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


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
        from airflow_stream_provider.planning.condition import Needs
        from airflow_stream_provider.planning.stop import stoppable

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
