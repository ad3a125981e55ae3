"""Measure how far a stream or a consumer group is behind Kafka."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, Context

from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.hooks.lag import measure_now
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.lag_conditions import Measured
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.lag_target import lag_target, own_limits
from airflow_stream_provider.triggers.grace import beyond
from airflow_stream_provider.triggers.lag import LagTrigger

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec


class KafkaLagOperator(BaseOperator):
    """Return how far a stream, or a consumer group, is behind Kafka; the task succeeds whatever the lag is.

    Changes nothing. Needs DESCRIBE on the topics and the group, and DESCRIBE_CONFIGS on the topics to know when Kafka
    deletes unread records.

    :param stream: the stream, as read by `load_spec`; or else
    :param group: a consumer group, with `kafka`. (templated)
    :param kafka: Airflow connection of type `kafka`, for a group. (templated)
    :param ledger: Airflow connection of the database in which a sink keeps the offsets of the stream, or of a job named
        `group` (docs/exactly_once.md): they are read there, in the worker. (templated)
    :param wait_seconds: fail when Kafka has not answered after so many seconds.
    :param deferrable: measure in the triggerer, with the reader that all sensors of this Kafka share; with False, in
        the worker with a connection of its own.

    XCom, times in seconds, lags in records, None = unknown: `at` (since 1970), `records` and `seconds` (of the query
    with the most), `verdict`, `complete` (whether the lag of every partition is known), and `queries`, each with:

    - `query`, `verdict`, `alarms`, `batch` (the last committed one), `commit_age`, and `problem`: why something is
      unknown, one sentence.
    - `records` and `max_records` (of all partitions, of one), `lost`: records that Kafka deleted before they were read.
    - `seconds`: age of the oldest record that is not committed; `ages_known`: False when some ages are unknown, and
      `seconds` is a lower bound.
    - `retention_seconds`: until Kafka deletes a record that is not committed; None also for never.
    - `held_seconds`: how long the transaction that hides records has been open, 0 without one; `held_by`: its
      transactional id, empty when there is none or it is unknown.
    - `partition_count`, `unknown_partitions`, and `partitions`, at most 100: those that are unknown, then those with
      the largest lag. Each has `topic`, `partition`, `state`, `verdict`, `committed`, `log_start` and `end` (offsets),
      `raw_lag` (`end` less `committed`, may be negative), `lag`, `lost` and `seconds`.
    """

    template_fields: Sequence[str] = ("group", "kafka", "ledger")
    ui_color = "#e6f3f8"

    def __init__(
        self,
        *,
        stream: StreamSpec | None = None,
        group: str = "",
        kafka: str = "",
        ledger: str = "",
        wait_seconds: float = 120.0,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.group = group
        self.kafka = kafka
        self.ledger = ledger
        self.wait_seconds = wait_seconds
        # Raises while the DAG is parsed. The threads of a triggerer cannot read connections, as a database's hook does.
        self.deferrable = deferrable and not lag_target(stream, group, kafka, ledger).ledger
        self.limits = own_limits(stream)

    def execute(self, context: Context) -> dict[str, Any]:
        """Measure, here or in the triggerer."""
        with failing_without_retry():
            target = lag_target(self.stream, self.group, self.kafka, self.ledger)
            if self.deferrable:
                self._defer(target)
            return summary(measure_now(target, self.limits.moments), self.limits.ceilings)

    def _defer(self, target: LagTarget) -> NoReturn:
        trigger = LagTrigger(
            target.to_json(),
            Measured(self.limits.to_json()).to_json(),
            min(10.0, self.wait_seconds),
            time.time() + self.wait_seconds,
            partitions=True,
        )
        self.defer(trigger=trigger, method_name="resume", timeout=beyond(self.wait_seconds))

    def resume(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Return the report.

        :raises StreamError: Kafka did not answer in time, or its connection cannot be read or used; Airflow retries
            the task.
        """
        outcome = WaitOutcome.from_event(event)
        if outcome.ended is Ended.REACHED:
            return dict(outcome.evidence)
        if outcome.ended is Ended.CANNOT_LOOK:
            # Perhaps what keeps the connection is away for longer than the trigger has waited for it.
            raise StreamError(outcome.reason)
        raise StreamError(
            f"{outcome.subject}: {outcome.reason} The task waited {self.wait_seconds:.0f} s.",
            next_step="Make Kafka answer, or give a larger wait_seconds.",
        )
