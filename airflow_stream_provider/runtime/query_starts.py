"""How the queries of a driver start: once it holds, when the script adds one, and again after they have failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.checkpoint.location import files_of, locate
from airflow_stream_provider.checkpoint.rewind import Rewind
from airflow_stream_provider.checkpoint.visible import STALE_SECONDS, is_another
from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import (
    CheckpointAway,
    CheckpointBroken,
    CheckpointError,
    ControlUnavailable,
    StreamError,
)
from airflow_stream_provider.lifecycle.rewind import Offsets
from airflow_stream_provider.runtime.describe import first_batch, progress, sources_of
from airflow_stream_provider.runtime.jvm_topic import TopicDenied
from airflow_stream_provider.runtime.kafka_client import check_still_there, put_back
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.ports import QueryEnd
from airflow_stream_provider.runtime.query_failures import QueryFailures
from airflow_stream_provider.runtime.refused import check_engine


class Gaps:
    """The gaps of this driver's queries, by the times of the commit files, which one clock has written."""

    def __init__(self) -> None:
        # By checkpoint, the last batch before the query started here.
        self._last: dict[str, int] = {}
        self._asked: dict[str, Future[float | None]] = {}

    def starts(self, checkpoint: str, last: int | None) -> None:
        """Note that a query starts here.

        :param last: the last batch that is committed; None before the first one, which has no gap.
        """
        self._last.pop(checkpoint, None)
        self._asked.pop(checkpoint, None)
        if last is not None:
            self._last[checkpoint] = last

    def seconds(self, checkpoint: str, batch: int | None) -> float | None:
        """Return the seconds between the last commit before the start and the first one after it; None while unknown.

        Never waits: the storage may hang, and is asked once.

        :param batch: the last batch that this driver has committed.
        """
        last = self._last.get(checkpoint)
        if last is None or batch is None or batch <= last:
            return None
        if checkpoint not in self._asked:
            try:
                self._asked[checkpoint] = start(partial(_gap, checkpoint, last), "gap")
            except RuntimeError:  # no thread can be begun now
                return None
        asked = self._asked[checkpoint]
        return asked.result() if asked.done() else None


def _gap(checkpoint: str, last: int) -> float | None:
    try:
        commits = locate(checkpoint) / "commits"
        ended, began = files_of(commits).facts([commits / str(last), commits / str(last + 1)])
    except Exception as error:  # noqa: BLE001 - whatever it is, the progress of the queries does not depend on it
        log.warning("How long nothing was committed to %s is not known: %s", checkpoint, error)
        return None
    return round(began.modified - ended.modified, 3) if ended and began else None


T = TypeVar("T")

log = logging.getLogger(__name__)


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
        # By real place, what was seen of a checkpoint before its query started in this hold; None until that is known.
        self._seen: dict[str, Seen] | None = None
        # By real place, the query that was started there last in this hold.
        self._begun: dict[str, ManagedQuery] = {}
        # By run, the last commit just before it started, until it is known that it goes on after that.
        self._after: WeakKeyDictionary[StreamingQuery, int] = WeakKeyDictionary()
        # By label, the call that notes a failure, or has noted the last one.
        self._noting: dict[str, Future[None]] = {}
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
        """Another hold begins, with other batches to wait for; how the queries did in the one before is over."""
        for failures in list(self._failures.values()):
            failures.forget()
        self._begun.clear()
        self._after.clear()
        self._seen = None

    def expect(self, seen: Mapping[str, Seen]) -> None:
        """Let no query start in this hold on a checkpoint that is not the one that was seen."""
        self._seen = by_place(seen)

    def seen(self, query: ManagedQuery) -> Seen:
        """Return what the stream has seen of the query's checkpoint, as far as this driver knows."""
        place = checkpoints.real_form(query.checkpoint)
        found, run = (self._seen or {}).get(place, Seen()), self._begun.get(place)
        if run is None:
            return found
        found = found.and_then(Seen(batch=self.failures_of(run).at_batch))
        try:
            last = progress(run)
        except Exception as error:  # noqa: BLE001 - such as by py4j, of a JVM that is going
            log.warning("What Spark says of %s is not known: %s", query.label, error)
            return found
        return found.and_then(Seen(last.id, last.batch))

    def end_of(self, query: ManagedQuery, end: QueryEnd) -> QueryEnd:
        """Return where a query stopped, by its logs and by what was seen: they may have been removed meanwhile.

        Logs that show less than was seen do not tell whether a batch was cut off: then it counts as one that was.
        """
        seen = self.seen(query)
        completed = end.completed and not is_another(seen, Seen(seen.id, end.batch))
        batch = seen.and_then(Seen(batch=end.batch)).batch
        return replace(end, completed=completed, batch=batch, id=seen.id, checkpoint=query.checkpoint)

    def start(self, query: ManagedQuery) -> None:
        """Start a query on its real checkpoint, or note that it waits for its storage or its claim.

        :raises StreamError: it cannot start, its checkpoint is not the one that was seen, or the driver's user may not
            use the claims.
        """
        try:
            self._start(query)
        except TopicDenied:
            raise  # a person has to change something
        except (CheckpointAway, ControlUnavailable) as error:
            self.failures_of(query).waits(query.label, error, time.monotonic(), query.real)
        else:
            self.failures_of(query).waited = 0

    def plan_rewinds(
        self, queries: Sequence[ManagedQuery], due: DueRewind, known: Mapping[str, Seen]
    ) -> list[tuple[str, Rewind]]:
        """Return by label how queries go back before they start; without those that have gone back already.

        Where it is owed, those are left out that have other checkpoints by now.

        :param known: by place, what must be there first.
        :raises StreamError: one of them cannot, its checkpoint is not the one that was seen, or the log does not say
            where it stood; see `checkpoint.plan_rewind`.
        """
        stood, plans = by_place(due.stood), []
        for query in queries:
            place, to = checkpoints.real_form(query.checkpoint), due.wanted.queries[query.label]
            after = stood.get(place)
            if after is None and due.owed and stood:
                continue
            if after is None:
                raise StreamError(
                    f"The control log does not say after which batch {query.label} stood when {due.mark} came to hold: "
                    "the driver before it was lost.",
                    next_step="See that the stream runs, and look how far it is (`airflow streams lag`). Then give the "
                    "command again.",
                )
            checkpoints.check_rewindable(query.checkpoint, sources_of(query))
            plan = self._plan_rewind(query, to, due.mark, after, known.get(place, Seen()).and_then(Seen("", after)))
            if plan.files:
                check_still_there(query, to)
                plans.append((query.label, plan))
        return plans

    def _plan_rewind(self, query: ManagedQuery, to: Offsets, mark: str, after: int, seen: Seen) -> Rewind:
        checkpoints.await_seen(query.checkpoint, seen)
        self._claim(query.checkpoint)
        checkpoints.list_anew(query.checkpoint)
        return checkpoints.plan_rewind(query.checkpoint, to, mark, after)

    def waits(self, query: ManagedQuery) -> bool:
        """Whether the query has not started in this hold, since its storage or the control store is away."""
        return query.real is None and self.failures_of(query).waited > 0

    def stood(self, query: ManagedQuery) -> QueryEnd | None:
        """Return where a query that has waited in vain stood when this driver took over, if that must be seen.

        The next driver would not know any more what the former holder committed.
        """
        batch = self.seen(query).batch if self.waits(query) else None
        return None if batch is None else self.end_of(query, QueryEnd(True, batch))

    def again(self, query: ManagedQuery) -> None:
        """Start a query that has failed, or one that has waited.

        :raises CheckpointBroken: its checkpoint is not the one that it was: nothing cures that.
        """
        if query.real is None:
            self.start(query)
            return
        if self.failures_of(query).gone:
            return  # by now its log may have grown past where it stood, with other records
        try:
            self._begin(query)
        except CheckpointBroken:
            raise
        except CheckpointAway as error:
            self.failures_of(query).waits(query.label, error, time.monotonic(), query.real)
        except Exception as error:  # noqa: BLE001 - what cannot start now is tried again like what has failed
            self.note(query, error)

    def ran_again(self, query: ManagedQuery) -> CheckpointBroken | None:
        """Return that the query's run did not go on after what the checkpoint showed just before it started; None: it
        did, or has said nothing yet.
        """
        run = query.real
        after = None if run is None else self._after.get(run)
        first = None if run is None or after is None else first_batch(run)
        if run is None or after is None or first is None:
            return None
        if first > after:
            self._after.pop(run, None)
            return None
        return CheckpointBroken(
            f"The query {query.label} ran batch {first} again, or was about to: its checkpoint showed batch {after} "
            "committed, and was replaced by an older copy just when the query started.",
            next_step="Put the checkpoint back as it was, and start the stream. What was written since then may be "
            "there twice.",
            batch=after,
            found=first,
        )

    def note_soon(self, query: ManagedQuery, error: Exception) -> None:
        """`note` in a thread of its own: the thread that looks after the queries renews the lease, and a storage may
        hang.
        """
        noting = self._noting.get(query.label)
        if noting is None or noting.done():
            self._noting[query.label] = start(partial(self.note, query, error, query.real), query.label)

    def note(self, query: ManagedQuery, error: Exception, run: object = None) -> None:
        """Remember that a query has failed; its checkpoint says whether it has committed anything before.

        :param run: which run has failed, unless it is another one by then; default: whichever it is.
        """
        failures, away, planned = self.failures_of(query), False, None
        try:
            ends = checkpoints.boundary(query.checkpoint)
            batch, planned = ends.commit, None if ends.completed else ends.offsets
        except Exception as found:  # noqa: BLE001 - the failure counts, whatever keeps its batch from being known
            batch, away = failures.at_batch, isinstance(found, CheckpointAway)
        if run is not None and query.real is not run:
            return
        if away:  # which may be why it has failed
            failures.waits(query.label, error, time.monotonic(), query.real)
        else:
            failures.fails(query.label, error, batch, time.monotonic(), planned, query.real)

    def _start(self, query: ManagedQuery) -> None:
        if self._seen is None:  # the script adds it while this driver asks what was seen
            raise CheckpointAway(f"What the stream has seen of {query.checkpoint} is not known yet.")
        check_engine(query.label, query.writer_spec)
        self._claim(query.checkpoint)
        # After a fence it is not known what was committed, and Spark begins where this machine sees the logs end.
        checkpoints.list_anew(query.checkpoint)
        try:
            self._begin(query)
        except StreamError:
            raise
        except Exception as error:
            try:
                checkpoints.boundary(query.checkpoint)
            except CheckpointAway as away:  # which may be why
                raise away from error
            except CheckpointError:
                pass
            raise

    def _begin(self, query: ManagedQuery) -> None:
        """Let Spark start the query, on the checkpoint that the stream has run on: every start goes through here.

        :raises CheckpointBroken: it is another one, or an older copy.
        """
        place = checkpoints.real_form(query.checkpoint)
        # This machine shows the commits of this driver in this hold.
        seconds = 0.0 if place in self._begun else STALE_SECONDS
        found = checkpoints.await_seen(query.checkpoint, self.seen(query), seconds)
        failures = self.failures_of(query)
        failures.tries()
        if query.real is None:
            failures.begins(found.batch)
            self.gaps.starts(query.checkpoint, found.batch)
        elif failures.loses_since is not None:
            failures.notes(put_back(query), time.monotonic())
        former = query.real
        query.start_real()
        if query.real is not None and query.real is not former and found.batch is not None:
            self._after[query.real] = found.batch
        self._begun[place] = query


def by_place(found: Mapping[str, T]) -> dict[str, T]:
    """Return what is known by checkpoint location, by their real places."""
    return {checkpoints.real_form(location): each for location, each in found.items()}
