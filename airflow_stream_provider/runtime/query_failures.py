"""How often a query has failed in this driver: when it is tried again, and when no restart helps any more."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from airflow_stream_provider.lifecycle.heartbeat import QueryHealth, QueryState
from airflow_stream_provider.runtime.kafka_client import SteppedBack
from airflow_stream_provider.runtime.spark_error import Failure, failure_of, message_of

# A query that fails this often, and has committed nothing since this driver took over, is not restarted any more: the
# release is at fault. One that has committed is restarted for as long as it takes: its sink or its source is.
ATTEMPTS = 4
# The number for an error of CONCURRENT: an NFS client may see the former holder's files as of a minute ago.
CONCURRENT_ATTEMPTS = 7
# The longest pause between two attempts.
BACK_OFF_SECONDS = 300.0
# As long at most when the storage of the checkpoint is away.
AWAY_SECONDS = 10.0
# Errors that no restart cures: Spark's error classes and, where it has none, part of its message.
INCURABLE = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "sources in the checkpoint offsets and now there are",
    # A sink of airflow_stream_provider.sinks does not take the batch.
    "SINK_REFUSED",
)
# Kafka does not show records that it has shown before. For a moment a broker may that is behind, or has just come to
# lead; what is lost for good raises the same error.
LOSS = ("KAFKA_DATA_LOSS", "Partitions Set(", "may have been lost because they are not available in Kafka")
# Errors caused by another writer on the checkpoint, or by a stale file of our own first try: the control log decides
# which driver goes on.
CONCURRENT = ("CONCURRENT_STREAM_LOG_UPDATE", "concurrently using", "_LEGACY_ERROR_TEMP_2207")

log = logging.getLogger(__name__)


@dataclass
class QueryFailures:
    """How a query does in this driver. All times are monotonic.

    :param loss_seconds: how long records that Kafka shows no more are waited for.

    :param count: how often it failed since its last commit.
    :param total: how often it failed since this driver took over.
    :param waited: how often it waited for its checkpoint since then.
    :param at_batch: that commit.
    :param retry_at: when it is tried again; 0 while it runs.
    :param began_at: its last commit when this driver started it.
    :param proven: whether it has committed a batch in this driver.
    :param lost: the error that no restart cures.
    :param trouble: one line on the last failure, for people; empty while it runs.
    :param since: its first failure, or wait, after it last got on; None: it gets on.
    :param run: of then, which cannot be the one that gets on; None: there was none.
    :param tried: how often it has failed since then.
    :param loses_since: since when it fails because Kafka shows records no more; None: it does not.
    :param loss: the last error that said so.
    :param gone: whether it is not tried any more for that; the others of the driver go on.
    :param failure: why it has failed.
    :param batch: the batch that has failed; None: none was planned, or it is not known.
    :param note: what a person should know of it for the rest of the hold, since `noted_at`.
    """

    loss_seconds: float = 300.0
    count: int = 0
    total: int = 0
    waited: int = 0
    at_batch: int | None = None
    retry_at: float = 0.0
    began_at: int | None = None
    proven: bool = False
    lost: Exception | None = None
    trouble: str = ""
    since: float | None = None
    run: object = None
    tried: int = 0
    loses_since: float | None = None
    loss: Exception | None = None
    gone: bool = False
    failure: Failure = field(default_factory=lambda: Failure(""))
    batch: int | None = None
    note: str = ""
    noted_at: float = 0.0

    def tries(self) -> None:
        """It is started, for the first time or again."""
        self.retry_at, self.trouble = 0.0, ""

    def begins(self, batch: int | None) -> None:
        """This driver, which holds, goes on after this commit."""
        self.began_at = self.at_batch = batch
        waited = self.waited
        self.forget()
        self.waited = waited  # until Spark has started it

    def forget(self) -> None:
        """How it did before does not count any more."""
        self.count = self.total = self.waited = 0
        self.gone, self.note, self.noted_at = False, "", 0.0
        self.lost = self.loss = None
        self.gets_on()

    def gets_on(self) -> None:
        """A run after its last failure has committed, or has found that there is nothing to do."""
        self.since, self.tried, self.failure, self.batch = None, 0, Failure(""), None
        self.loses_since = None

    @property
    def loses(self) -> bool:
        """Whether it has failed for that as often as a release may that has never committed."""
        return self.loses_since is not None and self.count >= ATTEMPTS

    def prove(self, batch: int | None) -> None:
        """Its last commit is this one now."""
        self.proven = self.proven or _later(batch, self.began_at)

    def fails(
        self,
        label: str,
        error: Exception,
        batch: int | None,
        now: float,
        planned: int | None = None,
        run: object = None,
    ) -> None:
        """It has failed after this commit.

        :param planned: the batch that it was to run; default: none is planned.
        :param run: which run has failed.
        """
        text = str(error)
        self.waited = 0
        self.prove(batch)
        if _later(batch, self.at_batch):
            self.count, self.at_batch = 0, batch
            self.gets_on()
        self.count += 1
        self.total += 1
        self.tried += 1
        self.since = now if self.since is None else self.since
        self.failure, self.batch, self.run = failure_of(error), planned, run
        loses = isinstance(error, SteppedBack) or any(sign in text for sign in LOSS)
        # Another error in between, as of a broker that comes and goes, cures nothing.
        loses_since = now if self.loses_since is None else self.loses_since
        concurrent = any(sign in text for sign in CONCURRENT)
        attempts = CONCURRENT_ATTEMPTS if concurrent else ATTEMPTS
        given_up = self.count >= attempts and not self.proven
        if loses:
            self.loss, self.gone, self.loses_since = error, now - loses_since >= self.loss_seconds, loses_since
        elif any(sign in text for sign in INCURABLE) or given_up:
            self.lost = error
        wait = back_off(self.count, at_once=concurrent)
        self.retry_at = now + wait
        self.trouble = (
            f"The query {label} failed, {self.count} times since its last commit, and is tried again after "
            f"{wait:.0f} s: {message_of(error, 200)}"
        )
        log.warning("The query %s failed (%s since its last commit): %s", label, self.count, message_of(error, 500))

    def waits(self, label: str, error: Exception, now: float, run: object = None) -> None:
        """It cannot run while the storage of its checkpoint, or the claim of that, is away.

        That says nothing against its release.
        """
        self.waited += 1
        self.since = now if self.since is None else self.since
        self.failure, self.batch, self.run = failure_of(error), None, run
        wait = min(AWAY_SECONDS, back_off(self.waited))
        self.retry_at = now + wait
        self.trouble = (
            f"The query {label} waits for its checkpoint, and is tried again after {wait:.0f} s: {error!s:.200}"
        )
        log.warning("The query %s waits for its checkpoint: %.500s", label, error)

    def notes(self, said: str, now: float) -> None:
        """Let people know this, unless it is empty."""
        if said:
            self.note, self.noted_at = said, now
            log.warning("%s", said)

    def health(self, now: float) -> QueryHealth:
        """Return how the query is, for the heartbeat."""
        noted = now - self.noted_at if self.note else 0.0
        if self.since is None:
            return QueryHealth(note=self.note, noted_seconds=noted)
        state = QueryState.LOST if self.gone else QueryState.WAITING if self.waited else QueryState.RETRYING
        found = self.failure
        return QueryHealth(
            state.value,
            now - self.since,
            self.tried,
            found.error,
            found.cause,
            self.batch,
            found.ranges,
            found.left_out,
            self.note,
            noted,
        )


def _later(batch: int | None, before: int | None) -> bool:
    """Whether there is a commit since then: logs that have vanished are none."""
    return batch is not None and (before is None or batch > before)


def back_off(count: int, *, at_once: bool = False) -> float:
    """Return the seconds to wait before a try, after so many failures without a commit in between.

    :param at_once: whether the first try needs no wait.
    """
    if at_once and count == 1:
        return 0.0
    return min(BACK_OFF_SECONDS, 2.0 ** min(count - 1, 20))
