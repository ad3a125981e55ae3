"""Bring back a stream that has lost its driver."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow_stream_provider.planning.condition import Needs
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


# A heartbeat that has grown since an older sample of the watch may have stood still again for most of the time. So
# whatever the watch's schedule: without a sample a sign of life is waited for, which takes seconds.
SAMPLE_SECONDS = 180.0


class ReviveStreamOperator(StreamOperator):
    """Bring back a stream that has lost its holder; skipped, with the reason, when there is nothing to do.

    It fences the dead driver (killed, and confirmed gone by the cluster), ends requests that no driver can fulfil any
    more, and appoints a warm driver of the release that held last, or else starts that release again; for the
    exceptions see `recovery_step`. A new release is never put in charge; a stream that was stopped or has finished is
    left alone.

    XCom: `stream`, `holder`, `phase`.
    """

    WAIT_SECONDS = 1500.0
    CHANGES_HOLDER = True
    _before: Mapping[str, int] = {}

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
        from airflow_stream_provider.planning.condition import Needs
        from airflow_stream_provider.planning.recover import drivers_of_interest, job_of_interest

        return Needs(drivers=drivers_of_interest(snapshot), job=job_of_interest(snapshot))
