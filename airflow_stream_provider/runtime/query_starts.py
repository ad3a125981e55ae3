"""How the queries of a driver start: once it holds, when the script adds one, and again after they have failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointError, ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.rewind import Offsets
from airflow_stream_provider.runtime.engine import check_engine
from airflow_stream_provider.runtime.gap import Gaps
from airflow_stream_provider.runtime.jvm_topic import TopicDenied
from airflow_stream_provider.runtime.log_starts import put_back
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.ports import QueryEnd
from airflow_stream_provider.runtime.query_failures import QueryFailures


class QueryStarts:
    """Starts queries, and remembers by label how each of them has failed.

    While the storage of a checkpoint is away, or the control store does not say whose it is, a query that has not
    started in this hold is `due` again and again: an outage of any length ends with the same release running. The
    driver can be stopped and relieved meanwhile.

    :param claim: takes a checkpoint location; records this stream as its owner, or raises.
    :param loss_seconds: how long records that Kafka shows no more are waited for.
    """

    def __init__(self, claim: Callable[[str], None], loss_seconds: float) -> None:
        self._claim = claim
        self._loss_seconds = loss_seconds
        self._failures: dict[str, QueryFailures] = {}
        # Those that wait for storage or claim, with the batch that they must see there first and whether they must.
        self._waiting: dict[str, tuple[int | None, bool]] = {}
        # By label the thread that notes a failure, for as long as it does.
        self._noting: dict[str, threading.Thread] = {}
        self.gaps = Gaps()

    @property
    def trouble(self) -> str:
        """One line on a query that has failed and is tried again later; empty when there is none."""
        return next((found.trouble for found in list(self._failures.values()) if found.trouble), "")

    @property
    def proven(self) -> bool:
        """Whether a query is known to have committed a batch in this driver."""
        return any(failures.proven for failures in list(self._failures.values()))

    def failures_of(self, query: ManagedQuery) -> QueryFailures:
        """How the query does in this driver."""
        return self._failures.setdefault(query.label, QueryFailures(self._loss_seconds))

    def forget(self) -> None:
        """Another hold begins, with other batches to wait for."""
        self._waiting.clear()

    def start(self, query: ManagedQuery, batch: int | None = None, required: bool = True) -> None:
        """Start a query on its real checkpoint, or note that it waits for its storage or its claim.

        :param batch: the last batch that the former holder committed, which must be seen first; default: not known.
        :param required: see `checkpoint.await_commit`.
        :raises StreamError: it cannot start, its checkpoint does not show that batch, or the driver's user may not use
            the claims.
        """
        try:
            if batch is not None:
                checkpoints.await_commit(query.checkpoint, batch, required=required)
            self._start(query)
        except TopicDenied:
            raise  # a person has to change something
        except (CheckpointAway, ControlUnavailable) as error:
            self._waiting[query.label] = (batch, required)
            self.failures_of(query).waits(query.label, error, time.monotonic())
        else:
            self._waiting.pop(query.label, None)

    def plan_rewind(self, query: ManagedQuery, to: Offsets, mark: str, after: int, batch: int) -> checkpoints.Rewind:
        """Return how a query goes back before it starts on its real checkpoint.

        :param batch: must be seen there first, as in `start`.
        :raises StreamError: it cannot, or its checkpoint does not show that batch; see `checkpoint.plan_rewind`.
        """
        checkpoints.await_commit(query.checkpoint, batch)
        self._claim(query.checkpoint)
        checkpoints.list_anew(query.checkpoint)
        return checkpoints.plan_rewind(query.checkpoint, to, mark, after)

    def waits(self, query: ManagedQuery) -> bool:
        """Whether the query has not started in this hold, since its storage or the control store is away."""
        return query.real is None and query.label in self._waiting

    def stood(self, query: ManagedQuery) -> QueryEnd | None:
        """Return where a query that has waited in vain stood when this driver took over, if that must be seen.

        Whoever follows would not know any more what the former holder committed.
        """
        batch, required = self._waiting.get(query.label, (None, False))
        return QueryEnd(True, batch, checkpoint=query.checkpoint) if required and batch is not None else None

    def again(self, query: ManagedQuery) -> None:
        """Start a query that has failed, or one that has waited."""
        if query.real is None:
            self.start(query, *self._waiting.get(query.label, (None, True)))
            return
        failures = self.failures_of(query)
        if failures.gone:
            return  # by now its log may have grown past where it stood, with other records
        failures.tries()
        try:
            if failures.loses_since is not None:
                failures.notes(put_back(query), time.monotonic())
            query.start_real()
        except Exception as error:  # noqa: BLE001 - what cannot start now is tried again like what has failed
            self.note(query, error)

    def note_soon(self, query: ManagedQuery, error: Exception) -> None:
        """`note` in a thread of its own: whoever looks after the queries renews the lease, and a storage may hang."""
        if query.label in self._noting:
            return
        run = query.real

        def note() -> None:
            try:
                self.note(query, error, run)
            finally:
                del self._noting[query.label]

        thread = threading.Thread(target=note, name=f"airflow-stream-{query.label}", daemon=True)
        self._noting[query.label] = thread
        try:
            thread.start()
        except RuntimeError:
            note()  # the machine has no thread left

    def note(self, query: ManagedQuery, error: Exception, run: object = None) -> None:
        """Remember that a query has failed; its checkpoint says whether it has committed anything before.

        :param run: which run has failed, unless it is another one by then; default: whichever it is.
        """
        failures, away, planned = self.failures_of(query), False, None
        try:
            ends = checkpoints.boundary(query.checkpoint)
            batch, planned = ends.commit, None if ends.completed else ends.offsets
        except CheckpointError as found:
            batch, away = failures.at_batch, isinstance(found, CheckpointAway)
        if run is not None and query.real is not run:
            return
        if away:  # which may be why it has failed
            failures.waits(query.label, error, time.monotonic())
        else:
            failures.fails(query.label, error, batch, time.monotonic(), planned)

    def _start(self, query: ManagedQuery) -> None:
        check_engine(query.label, query.writer_spec)
        self._claim(query.checkpoint)
        # After a fence nobody can say what was committed, and Spark begins where this machine sees the logs end.
        checkpoints.list_anew(query.checkpoint)
        begins = checkpoints.boundary(query.checkpoint).commit
        failures = self.failures_of(query)
        failures.tries()
        failures.begins(begins)
        self.gaps.starts(query.checkpoint, begins)
        try:
            query.start_real()
        except StreamError:
            raise
        except Exception as error:
            away = _away(query)  # which may be why
            if away is not None:
                raise away from error
            raise


def _away(query: ManagedQuery) -> CheckpointAway | None:
    """Return what the storage of a checkpoint says, if it is away."""
    try:
        checkpoints.boundary(query.checkpoint)
    except CheckpointAway as error:
        return error
    except CheckpointError:
        return None
    return None
