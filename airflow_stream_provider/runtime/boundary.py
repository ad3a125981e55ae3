"""Stop a query at a batch boundary, or hold it there, by Spark's own progress lock.

`query.stop()` interrupts the batch that runs and looks clean afterwards. Spark however writes the offsets of a
batch, and later its commit, only under the query's progress lock (`StreamExecution.awaitProgressLock`), for any
source or sink. While this thread holds the lock, the logs stand still and the stream's own thread gets no further
than its next write: there it queues, and its stack says which write that is. One flag ends the query,
`StreamExecution.state`, which the stream's thread reads between two batches:

- queued for the commit, or for the note that follows it: set the flag and let it through; the batch commits and
  the query ends;
- queued for the offsets of a next batch: let it through and take the lock again (the lock is fair);
- not queued, a batch planned: wait for its commit;
- not queued, nothing planned: set the flag; wake the thread if it sleeps until the next trigger, otherwise it reads
  the flag soon.

All of this is internal to Spark. It works on 3.5 to 4.3; run tests/integration/runtime/test_boundary.py
against any other version.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.checkpoint.logs import LogEnds, boundary
from airflow_stream_provider.checkpoint.visible import Seen, is_another
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd

log = logging.getLogger(__name__)

POLL_SECONDS = 0.005
# Between two looks at a storage that does not answer.
RETRY_SECONDS = 0.5
# How long to wait after the flag or an interrupt, when the stream's thread only closes its sources, and after a
# cancelled job, when its tasks only stop.
SETTLE_SECONDS = 30.0


def stop_at_boundary(query: StreamingQuery, deadline_seconds: float, committed: int | None = None) -> QueryEnd:
    """End a query between two batches and return where it stopped.

    A query that has ended by itself, failed or was stopped is judged as it is. Safe to call for several queries
    from several threads.

    :param deadline_seconds: how long to wait for the boundary; a batch that takes longer is not cut off.
    :param committed: a batch that is known to be committed; None: none is. Logs that show less were removed or
        replaced, and do not tell whether a batch was cut off: then it counts as one that was.
    :raises BoundaryMissed: no boundary within the deadline, the query's engine has none (asynchronous progress
        tracking, continuous and real-time mode), or its logs cannot be read. The query goes on running as before.
    :raises CheckpointError: the query has ended, and its logs cannot be read, also not at the deadline.
    """
    deadline = time.monotonic() + deadline_seconds
    stream = _Stream(query)
    if stream.alive:
        stream.require_boundaries()
        stream.ends()
        stopping = stream.stop_before_first_batch()
        while not stopping:
            with stream.locked(deadline):
                stopping = stream.stop_under_lock(deadline)
        stream.join(SETTLE_SECONDS)
    ends = _ends_of(stream.checkpoint, deadline)
    completed = ends.completed and not is_another(Seen(batch=committed), Seen(batch=ends.commit))
    tasks = 0 if completed else stream.cancel_tasks(SETTLE_SECONDS) + int(stream.alive)
    return QueryEnd(completed, ends.commit, tasks)


@contextlib.contextmanager
def progress_lock(query: StreamingQuery, timeout_seconds: float) -> Iterator[None]:
    """Hold a query still: inside the context, it neither plans nor commits a batch. A batch that is running goes on.

    :raises BoundaryMissed: the lock was not free within the timeout (a source that hangs while it looks for new data
        keeps it), or the engine writes its logs outside the lock.
    """
    stream = _Stream(query)
    stream.require_boundaries()
    with stream.locked(time.monotonic() + timeout_seconds):
        yield


def _ends_of(checkpoint: str, deadline: float) -> LogEnds:
    """Read where the logs of a query end that has stopped: its storage may be away for a moment."""
    while True:
        try:
            return boundary(checkpoint)
        except CheckpointError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)


class _Stream:
    """Spark's StreamExecution behind a query, and the internals of it that are needed here."""

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
        """Refuse the engines that write their logs outside the lock, or only after they have written the records."""
        engine = self.execution.getClass().getSimpleName()
        trigger = self.execution.trigger().getClass().getSimpleName()
        if engine != "MicroBatchExecution" or "RealTime" in trigger:
            raise BoundaryMissed(
                f"The query {self.name} runs on {engine} with {trigger}, which has no batch boundaries to stop at.",
                next_step="Stop the stream instead of handing it over, or run the query with a processing "
                "time trigger.",
                query=self.name,
                never=True,
            )

    def ends(self) -> LogEnds:
        """Read where the logs of the running query end."""
        try:
            return boundary(self.checkpoint)
        except CheckpointError as error:
            raise BoundaryMissed(
                f"The query {self.name} was not stopped, since nobody can say where: {error.message}",
                next_step=error.next_step,
                query=self.name,
            ) from error

    @contextlib.contextmanager
    def locked(self, deadline: float) -> Iterator[None]:
        unit = jvm.jvm().java.util.concurrent.TimeUnit.MILLISECONDS
        # tryLock with a timeout queues fairly; without one it would overtake the stream's own thread.
        if not self.lock.tryLock(max(1, int((deadline - time.monotonic()) * 1000)), unit):
            raise self._missed("did not give its progress lock")
        try:
            yield
        finally:
            self.lock.unlock()

    def stop_before_first_batch(self) -> bool:
        """End a query if it is still initializing: Spark reads the flag before the first batch."""
        initializing = jvm.scala_object(self._active, "INITIALIZING")
        if not self.state.compareAndSet(initializing, self._terminated):
            return False
        self.thread.interrupt()  # the set-up may wait for a broker
        return True

    def stop_under_lock(self, deadline: float) -> bool:
        """Set the flag if that ends the query at a boundary, and return True; return False to be called again.

        :raises BoundaryMissed: the deadline has passed; the flag is as it was before.
        """
        between_batches = self.ends().completed
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
            # Without that frame the query has ended by itself or failed, and is about to report it.
            if "runActivatedStream" in frames:
                self._flag()
            return True
        except BaseException:
            self._unflag()
            raise

    def _wake(self) -> bool:
        """Wake the thread if it sleeps until its next trigger: it has seen no data, and reads the flag first."""
        if self.thread.getState().toString() != "TIMED_WAITING" or "waitTillTime" not in jvm.stack(self.thread):
            return False
        self.thread.interrupt()
        return True

    def _flag(self) -> None:
        self._flagged = self.state.compareAndSet(self._active, self._terminated) or self._flagged

    def _unflag(self) -> None:
        """Take the flag back, unless somebody else stopped the query or its thread has read the flag already."""
        if self._flagged and self.state.compareAndSet(self._terminated, self._active):
            self._flagged = False
            if not self.alive or "runActivatedStream" not in jvm.stack(self.thread):
                self.state.set(self._terminated)

    def _missed(self, what: str) -> BoundaryMissed:
        return BoundaryMissed(
            f"The query {self.name} {what} when the deadline for its batch boundary passed; it is still running.",
            next_step="Allow more time, or make its batches smaller (maxOffsetsPerTrigger).",
            query=self.name,
        )

    def join(self, seconds: float) -> None:
        self.thread.join(int(seconds * 1000))
        if self.alive:
            # The logs are final: the thread writes nothing to them after the flag.
            log.warning("The query %s has stopped, but needs more than %s s to close its source.", self.name, seconds)

    def cancel_tasks(self, seconds: float) -> int:
        """Cancel the query's jobs, wait for their tasks, and return how many tasks are still running."""
        group = self.execution.runId().toString()
        context = SparkContext._active_spark_context
        if context is None or self.execution.sparkSession().sparkContext().isStopped():
            return 1  # it is not known here whether its executors have ended
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
