"""Stop a query at a batch boundary, or hold it there, by Spark's own progress lock.

`query.stop()` interrupts the batch that runs and looks clean afterwards. Spark however writes the offsets of a
batch, and later its commit, only under the query's progress lock (`StreamExecution.awaitProgressLock`), for any
source or sink. While this thread holds it, the logs stand still and the stream's own thread, wherever it is, can
go no further than its next write: there it queues, and its stack says which write that is. Ending the query is
then one flag, `StreamExecution.state`, which the stream's thread reads between two batches:

- queued for the commit, or for the note that follows it: set the flag and let it through; the batch commits and
  the query ends;
- queued for the offsets of a next batch: let it through and take the lock again (the lock is fair);
- not queued, a batch planned: wait for its commit;
- not queued, nothing planned: set the flag; asleep until the next trigger it is woken, else it ends by itself.

All of it is internal to Spark: works on 3.5, 4.0 and 4.2, and tests/integration/runtime/test_boundary.py is the
contract to run against any other version.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.checkpoint.logs import boundary
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd

log = logging.getLogger(__name__)

POLL_SECONDS = 0.005
# After the flag or an interrupt, the stream's thread only closes its sources; after a cancelled job, tasks only stop.
SETTLE_SECONDS = 30.0


def stop_at_boundary(query: StreamingQuery, deadline_seconds: float) -> QueryEnd:
    """End a query between two batches and return where it stopped.

    A query that has ended by itself, failed or was stopped is judged as it is. Safe to call for several queries
    from several threads.

    :param deadline_seconds: how long to wait for the boundary; a batch that takes longer is not cut off.
    :raises BoundaryMissed: no boundary within the deadline, or the query's engine has none (asynchronous progress
        tracking, continuous and real-time mode). The query runs on as if it had not been asked.
    :raises CheckpointError: the checkpoint is not on a local folder, so that nobody could judge; nothing was done.
    """
    deadline = time.monotonic() + deadline_seconds
    stream = _Stream(query)
    boundary(stream.checkpoint)
    if stream.alive:
        stream.require_boundaries()
        stopping = stream.stop_before_first_batch()
        while not stopping:
            with stream.locked(deadline):
                stopping = stream.stop_under_lock(deadline)
        stream.join(SETTLE_SECONDS)
    ends = boundary(stream.checkpoint)
    tasks = 0 if ends.completed else stream.cancel_tasks(SETTLE_SECONDS)
    return QueryEnd(ends.completed, ends.commit, tasks)


@contextlib.contextmanager
def progress_lock(query: StreamingQuery, timeout_seconds: float) -> Iterator[None]:
    """Hold a query still: while inside, it neither plans a batch nor commits one. Its running batch goes on.

    :raises BoundaryMissed: the lock was not had within the time (a source that hangs while it looks for new
        data holds it), or the engine writes its logs outside the lock.
    """
    stream = _Stream(query)
    stream.require_boundaries()
    with stream.locked(time.monotonic() + timeout_seconds):
        yield


class _Stream:
    """Spark's StreamExecution behind a query, with the few internals that matter here."""

    def __init__(self, query: StreamingQuery) -> None:
        jvm.gateway()  # without pinned threads, a lock taken here could not be released here
        self.name = query.name or query.id
        self.execution = query._jsq.streamingQuery()
        self.checkpoint: str = self.execution.resolvedCheckpointRoot()
        self.thread = self.execution.queryExecutionThread()
        self.state = self.execution.state()
        self.lock = self.execution.awaitProgressLock()
        self._active = jvm.scala_object(self.state.get(), "ACTIVE")
        self._terminated = jvm.scala_object(self.state.get(), "TERMINATED")
        self._flagged = False

    @property
    def alive(self) -> bool:
        return bool(self.thread.isAlive())

    def require_boundaries(self) -> None:
        """Refuse the engines that write their logs outside the lock, or only after the records are out."""
        engine = self.execution.getClass().getSimpleName()
        trigger = self.execution.trigger().getClass().getSimpleName()
        if engine != "MicroBatchExecution" or "RealTime" in trigger:
            raise BoundaryMissed(
                f"The query {self.name} runs on {engine} with {trigger}, which has no batch boundaries to stop at.",
                next_step="Stop the stream instead of handing it over, or run the query with a processing "
                "time trigger.",
                query=self.name,
            )

    @contextlib.contextmanager
    def locked(self, deadline: float) -> Iterator[None]:
        unit = jvm.jvm().java.util.concurrent.TimeUnit.MILLISECONDS
        # tryLock with a time queues fairly; the one without would barge in before the stream's own thread.
        if not self.lock.tryLock(max(1, int((deadline - time.monotonic()) * 1000)), unit):
            raise self._missed("did not give its progress lock")
        try:
            yield
        finally:
            self.lock.unlock()

    def stop_before_first_batch(self) -> bool:
        """End a query that is still being set up, if it is: Spark looks at the flag before its first batch."""
        initializing = jvm.scala_object(self._active, "INITIALIZING")
        if not self.state.compareAndSet(initializing, self._terminated):
            return False
        self.thread.interrupt()  # the set-up may wait for a broker
        return True

    def stop_under_lock(self, deadline: float) -> bool:
        """Set the flag if that ends the query cleanly, and return True; False asks for another try.

        :raises BoundaryMissed: the deadline passed; the flag is as it was before.
        """
        between_batches = boundary(self.checkpoint).completed
        try:
            if between_batches:
                self._flag()
            while True:
                if not self.alive:
                    return True
                if self.lock.hasQueuedThread(self.thread):
                    break
                if between_batches and self._wake():
                    return True
                if time.monotonic() > deadline:
                    raise self._missed("did not answer" if between_batches else "is still running a batch")
                time.sleep(POLL_SECONDS)
            frames = jvm.stack(self.thread)
            if "constructNextBatch" in frames:
                if time.monotonic() > deadline:
                    raise self._missed("was always about to plan a batch")
                self._unflag()
                return False
            if "runActivatedStream" in frames:  # else it has ended by itself or failed, and is about to say so
                self._flag()
            return True
        except BaseException:
            self._unflag()
            raise

    def _wake(self) -> bool:
        """Wake a thread that sleeps until its next trigger; it has seen no data and reads the flag first thing."""
        if self.thread.getState().toString() != "TIMED_WAITING" or "waitTillTime" not in jvm.stack(self.thread):
            return False
        self.thread.interrupt()
        return True

    def _flag(self) -> None:
        self._flagged = self.state.compareAndSet(self._active, self._terminated) or self._flagged

    def _unflag(self) -> None:
        """Let the query run on, unless somebody else stopped it or it has read the flag and is on its way out."""
        if self._flagged and self.state.compareAndSet(self._terminated, self._active):
            self._flagged = False
            if not self.alive or "runActivatedStream" not in jvm.stack(self.thread):
                self.state.set(self._terminated)

    def _missed(self, what: str) -> BoundaryMissed:
        return BoundaryMissed(
            f"The query {self.name} {what} when the deadline for its batch boundary passed; it runs on.",
            next_step="Allow more time, or make its batches smaller (maxOffsetsPerTrigger).",
            query=self.name,
        )

    def join(self, seconds: float) -> None:
        self.thread.join(int(seconds * 1000))
        if self.alive:
            # The logs are final all the same: nothing after the flag writes to them.
            log.warning("The query %s has stopped, but takes over %s s to close its source.", self.name, seconds)

    def cancel_tasks(self, seconds: float) -> int:
        """Cancel the query's jobs, wait until no task of them runs, and return how many are left."""
        group = self.execution.runId().toString()
        context = SparkContext._active_spark_context
        if context is None:
            return 0
        context.cancelJobGroup(group)
        tracker = context.statusTracker()
        deadline = time.monotonic() + seconds
        while True:
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
            tasks = sum(stage.numActiveTasks for stage in stages if stage)
            if not tasks or time.monotonic() > deadline:
                return tasks
            time.sleep(0.1)
