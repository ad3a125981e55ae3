"""Runs of the user's query plans on clones of the checkpoints, into sinks that keep nothing."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import RehearsalRefused, StreamError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.runtime.gate import Gate, start_ungated
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.query_failures import LOSS
from airflow_stream_provider.runtime.spark_error import WHOLE_KEPT, failure_of, message_of
from airflow_stream_provider.runtime.writer_spec import rehearsal_writer

SENTINEL = "airflow-stream-rehearsal: the plan is accepted"
# A source with nothing to read produces no batch, so that a longer wait for the next one would warm up nothing.
IDLE_SECONDS = 10.0
# The status of Spark's MicroBatchExecution. It may look for data nearly all of the time, which is a trigger, too.
_RUNS_A_BATCH = ("Processing new data", "No new data but cleaning up state")
_WAITS = "Waiting for"

# Of foreachBatch.
Function = Callable[[DataFrame, int], None]

log = logging.getLogger(__name__)


class TooSlow(StreamError):
    """A run did not end in the rehearsal's time, or Kafka has lost what it reads; the release has not failed.

    `batches`: Spark's progress of those that did end.
    """

    def __init__(self, message: str, batches: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message, next_step="Raise `upgrade.rehearse_seconds`, or give the standby more cores.")
        self.batches = batches


class CloneRuns:
    """Runs queries for a rehearsal, each on a clone of its checkpoint and with an id of its own.

    :ivar ids: of all its queries.
    :ivar deadline: on the monotonic clock, when a run must have ended; set by the rehearsal.
    """

    def __init__(self, gate: Gate, policy: Policy) -> None:
        self._gate = gate
        self._policy = policy
        self.ids: set[str] = set()
        self.deadline = 0.0

    def plan(self, query: ManagedQuery, clone: str) -> float:
        """Let Spark check plan, sources and state schema on the next batch; return the seconds that it took.

        The sink raises the sentinel: an error with another text is a refusal by Spark.
        """
        started = time.monotonic()
        checkpoints.clone_logs(query.checkpoint, clone, self.new_id())

        def refuse(batch: DataFrame, batch_id: int) -> None:
            raise RuntimeError(SENTINEL)

        writer = rehearsal_writer(query.writer, clone)
        writer = writer.foreachBatch(refuse)
        try:
            run = start_ungated(writer)
            ended = run.awaitTermination(max(1, int(self.deadline - time.monotonic())))
        except Exception as error:
            if SENTINEL in str(error):
                return round(time.monotonic() - started, 2)
            raise _refused(
                f"Spark refuses to run the query {query.label} on the stream's checkpoint",
                "Keep the schema of the state, or deploy as a new stream.",
                error,
            ) from error
        run.stop()
        if not ended:
            raise TooSlow(
                f"Spark did not plan a batch of {query.label} within {self._policy.rehearse_seconds:.0f} s: whether it "
                "can run on the stream's checkpoint was not seen."
            )
        raise RehearsalRefused(
            f"The rehearsal of {query.label} ended without planning a batch.", next_step="Look at the standby's log."
        )

    def batches(
        self, query: ManagedQuery, clone: str, wanted: int, function: Function | None = None
    ) -> list[dict[str, Any]]:
        """Run so many batches on a clone, into a sink that drops them, and return Spark's progress of each.

        :param function: gets the batches; default: the user's, if it gets those of the rehearsal.
        :raises TooSlow: the rehearsal's time is over.
        :raises RehearsalRefused: one of them fails.
        """
        writer = rehearsal_writer(query.writer, clone)
        function = function or self.function(query)
        writer = writer.format("noop") if function is None else writer.foreachBatch(function)
        try:
            return self._await_batches(query, start_ungated(writer), wanted)
        except TooSlow:
            raise
        except Exception as error:
            if any(sign in str(error) for sign in LOSS):
                # The holder has committed these records, so it says nothing against the release.
                raise TooSlow(
                    f"Kafka does not show the records of its last batches: {message_of(error, 300)}"
                ) from error
            raise _refused(
                f"The query {query.label} fails on live data", "Correct what the error names in the script.", error
            ) from error

    def function(self, query: ManagedQuery) -> Function | None:
        """Return the user's function, if it gets the batches of the rehearsal."""
        function = query.writer_spec.foreach_batch
        return function if self._policy.foreach_batch_safe or getattr(function, "rehearses", False) else None

    def warm_sink(self, query: ManagedQuery) -> None:
        """Warm up the Kafka sink's classes and producers: a write of no rows sends nothing and creates no topic."""
        if query.writer_spec.sink != "kafka":
            return
        spark = query.writer._df.sparkSession
        slots = spark.sparkContext.defaultParallelism
        empty = spark.range(0, slots, 1, slots).where("id < 0").selectExpr("cast(id as string) as value")
        options = {k: v for k, v in query.writer_spec.options.items() if k != "checkpointlocation"}
        empty.write.format("kafka").options(**{"topic": "none", **options}).save()

    def _await_batches(self, query: ManagedQuery, run: StreamingQuery, wanted: int) -> list[dict[str, Any]]:
        seen, idle_since = 0, None
        try:
            while True:
                failed = run.exception()
                if failed is not None:
                    raise failed
                batches = [json.loads(p.json()) for p in run._jsq.recentProgress()]
                batches = [batch for batch in batches if "addBatch" in batch["durationMs"]]
                now, message = time.monotonic(), run.status["message"]
                if len(batches) > seen or message.startswith(_RUNS_A_BATCH):
                    seen, idle_since = len(batches), None
                elif idle_since is None and message.startswith(_WAITS):
                    idle_since = now
                idle = idle_since is not None and now - idle_since > IDLE_SECONDS
                if len(batches) >= wanted or idle or not run.isActive:
                    return batches
                if now > self.deadline:
                    raise TooSlow(
                        f"Only {len(batches)} of {wanted} batches of {query.label} ran within "
                        f"{self._policy.rehearse_seconds:.0f} s{'' if batches else ': only its plan was proven'}.",
                        batches,
                    )
                time.sleep(0.1)
        finally:
            run.stop()

    def new_id(self) -> str:
        """Return an id for a clone; the gate hides the query that has it."""
        identity = str(uuid.uuid4())
        self.ids.add(identity)
        self._gate.hide(identity)
        return identity


def _refused(what: str, next_step: str, error: Exception) -> RehearsalRefused:
    if isinstance(error, RehearsalRefused):
        return error
    log.error("%s: %s", what, error)  # whole, with stack and plan
    return RehearsalRefused(
        f"{what}: {failure_of(error, WHOLE_KEPT)}", next_step=f"Nothing that runs was touched. {next_step}"
    )
