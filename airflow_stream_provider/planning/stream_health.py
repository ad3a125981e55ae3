"""Judge one look at a stream and at each of its queries; status, page, watch and soak share it. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.heartbeat import QueryHealth, QueryProgress, QueryState
from airflow_stream_provider.lifecycle.kafka_source import kafka_sources
from airflow_stream_provider.lifecycle.rules import is_adopting
from airflow_stream_provider.lifecycle.state import RequestStage, StreamPhase, StreamState
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.choice import tried_instead
from airflow_stream_provider.planning.job import waits_for_person
from airflow_stream_provider.planning.snapshot import Snapshot


class HeartbeatAges:
    """Remembers when each heartbeat counter was first seen; never compares the clocks of two machines.

    An age ends when the heartbeats began to be read, and begins after they were read for the first time: an observer
    that is held up between reading and judging makes it shorter, never longer. An observer that could not look in
    between has not seen any heartbeat stand still: it starts with a new instance then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def seconds(self, snapshot: Snapshot, incarnation: str) -> float:
        """Return for how many seconds the counter of an incarnation has not changed; 0 at the first look."""
        counter = snapshot.counter(incarnation)
        known = self._seen.get(incarnation)
        if known is None or known[0] != counter:
            self._seen[incarnation] = (counter, self._clock())
            return 0.0
        read = self._clock() if snapshot.read_at is None else snapshot.read_at
        return max(0.0, read - known[1])


def silence_limit(lease_seconds: float) -> float:
    """Return for how many seconds a heartbeat may stand still before its driver counts as lost.

    Two leases: by then a driver that cannot renew its lease has halted itself.
    """
    return 2 * lease_seconds


# A wish that is younger is under way: people are not told yet that the stream has no holder.
TELL_SECONDS = 300.0

# In these phases the stream may have no holder for a moment; a hand-over that hangs ends when its request expires.
CHANGING = (StreamPhase.STARTING, StreamPhase.HANDING_OVER)


@dataclass(frozen=True)
class RunJudgement:
    """Whether a driver runs the stream: the health, and the reason as a sentence; PASS and UNKNOWN need none."""

    health: Health
    reason: str = ""


def judge_run(snapshot: Snapshot, silent: float | None) -> RunJudgement:
    """Judge whether a driver runs the stream, if anybody wants that.

    UNKNOWN while it changes hands, and while the holder is silent, but not for long enough to be lost.

    :param silent: seconds for which the observer has seen the holder's heartbeat stand still; None: it has moved since
        the last look, or this is the first one.
    """
    state = snapshot.state
    if state.must_fence:
        return RunJudgement(Health.FAIL, f"{state.must_fence[0]} stopped inside a batch and is not confirmed dead.")
    if state.holder is None:
        if state.resting or _job_untouched(state):
            return RunJudgement(Health.PASS)
        if (state.phase in CHANGING and not _asked_in_vain(snapshot)) or seen_to(state, snapshot.at):
            return RunJudgement(Health.UNKNOWN)
        last = state.last_deployment
        why = f" {last.reason}" if last is not None and last.reason else ""
        age = snapshot.silent_seconds
        sign = "" if age is None else f"; the last sign of life is {duration(age)} old"
        instead = tried_instead(state, snapshot.at)
        reason = f"Nobody runs it ({state.phase.value}{sign}).{why} {instead} {waits_for_person(state)}"
        return RunJudgement(Health.FAIL, " ".join(reason.split()))
    if silent is None:
        return RunJudgement(Health.PASS)
    if silent < silence_limit(snapshot.lease([state.holder])):
        return RunJudgement(Health.UNKNOWN)
    return RunJudgement(Health.FAIL, f"Its driver {state.holder} has given no sign of life for {duration(silent)}.")


def _asked_in_vain(snapshot: Snapshot) -> bool:
    """Whether the stream has no holder, and its appointed driver was appointed before and did not take over."""
    request = snapshot.state.open_request
    before = (each for each in snapshot.state.requests.values() if request is not None and each.to == request.to)
    aborted = (each for each in before if each.source is None and each.stage is RequestStage.ABORTED)
    return any(each.expires > snapshot.free_since for each in aborted)


def _job_untouched(state: StreamState) -> bool:
    """Whether a driver comes up or stands by to follow a job without a stream, whose end was not begun."""
    follows = is_adopting(state) and bool(state.follower)
    return follows and state.job is None and state.wish is not None and not state.wish.confirmed_by


def seen_to(state: StreamState, now: float) -> bool:
    """Return whether people are not told yet that the stream has no holder: what a person has wished is under way."""
    if state.job is not None:
        return not state.job.doubt and now < state.job.expires
    # Either way: the clock of the machine that wrote it may be ahead.
    return state.wish is not None and state.wish.seq > state.held_from and abs(now - state.wish.at) < TELL_SECONDS


def judge_lag(snapshot: Snapshot, report: LagReport | None, limits: LagLimits, problem: str = "") -> LagJudgement:
    """Judge how far the stream is behind.

    A stream none of whose queries reads Kafka is not behind: that is known once Spark has reported the progress of
    each.

    :param problem: why there is no report.
    """
    if report is None:
        return LagJudgement(Health.UNKNOWN, (problem,) if problem else ())
    holder = snapshot.state.holder
    if not report.queries and holder is not None and snapshot.has_reported(holder):
        return LagJudgement(Health.PASS)
    return limits.judge(report)


# A query that fails is ill after so long; after two of its batches, if longer, while only one try has failed: the next
# one may be under way, and end well.
ILL_SECONDS = 60.0
# For so long at least people are told that a log of Kafka ended earlier for a moment: somebody has to look what it has
# lost.
NOTED_SECONDS = 600.0
# So many ill queries are described.
DESCRIBED = 3


@dataclass(frozen=True)
class IllQuery:
    """A query of the holder that fails, waits, or is lost, for long enough to be told of.

    :param committed: whether it has committed in this driver.
    :param needs_kafka: whether it reads Kafka, or writes to it, so that an outage of that may be why it fails.
    """

    name: str
    health: QueryHealth
    committed: bool = False
    needs_kafka: bool = False

    @property
    def waits(self) -> bool:
        """Whether the storage of its checkpoint is away: that says nothing against its release."""
        return self.health.state == QueryState.WAITING.value

    def __str__(self) -> str:
        found, lasted = self.health, duration(self.health.seconds)
        if self.waits:
            return f"The query {self.name} has waited for its checkpoint for {lasted}: {_ended(found.error)}"
        if found.state == QueryState.LOST.value:
            what = f"Kafka has lost what the query {self.name} is to read, and it is not tried any more"
        else:
            what = f"The query {self.name} has failed for {lasted}, {found.failures} times since it last got on"
        cause = f" It began with {_ended(found.cause)}" if found.cause else ""
        batch = "The batch" if found.batch is None else f"Batch {found.batch}"
        reads = f" {batch} reads {_ended(found.reads)}" if found.reads else ""
        if not reads and found.batch is not None:
            reads = f" It is batch {found.batch}."
        return f"{what}: {_ended(found.error)}{cause}{reads}"


@dataclass(frozen=True)
class QueriesJudgement:
    """How the holder's queries are: the health, those that are ill, and what else people should know of them."""

    health: Health
    ill: tuple[IllQuery, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = len(self.ill) - DESCRIBED
        others = [f"So it is with {more} more."] if more > 0 else []
        return " ".join([*map(str, self.ill[:DESCRIBED]), *others, *self.notes])


def judge_queries(snapshot: Snapshot, unseen_seconds: float = 0.0) -> QueriesJudgement:
    """Judge each query of the holder; all times are durations that its driver has measured.

    UNKNOWN while the stream has no holder, unless it is not wanted to run; of a query that has just failed; and of one
    without any progress since its driver took over.

    :param unseen_seconds: since the look before. A note that is younger is told, however rarely the watch looks.
    """
    beat, state = snapshot.holder_heartbeat, snapshot.state
    if beat is None:
        resting = state.holder is None and state.resting
        return QueriesJudgement(Health.PASS if resting else Health.UNKNOWN)
    queries = [query for query in beat.queries if not query.ended]
    told_seconds = max(NOTED_SECONDS, unseen_seconds)
    ill, notes = tuple(_ill(queries, _on_kafka(snapshot))), tuple(_notes(queries, told_seconds))
    if ill or notes:
        return QueriesJudgement(Health.FAIL, ill, notes)
    well = all(query.batch is not None and _state(query) == QueryState.RUNNING.value for query in queries)
    return QueriesJudgement(Health.PASS if well else Health.UNKNOWN)


def _on_kafka(snapshot: Snapshot) -> frozenset[str]:
    """Return the queries of the holder that read Kafka, or write to it, as its driver announced them."""
    found = snapshot.state.incarnations.get(snapshot.state.holder or "")
    queries = found.queries if found else ()
    return frozenset(query["name"] for query in queries if kafka_sources(query) or query.get("sink") == "kafka")


def _ill(queries: list[QueryProgress], on_kafka: frozenset[str]) -> Iterator[IllQuery]:
    for query in queries:
        found = query.health
        if found is None or found.state == QueryState.RUNNING.value:
            continue
        patience = max(ILL_SECONDS, 2 * (query.batch_seconds or 0.0) if found.failures == 1 else 0.0)
        if found.state == QueryState.LOST.value or found.seconds >= patience:
            # A loss is no outage.
            needs = query.name in on_kafka and found.state == QueryState.RETRYING.value
            yield IllQuery(query.name, found, bool(query.commits), needs)


def _notes(queries: list[QueryProgress], seconds: float) -> Iterator[str]:
    for query in queries:
        if query.health is not None and query.health.note and query.health.noted_seconds < seconds:
            yield query.health.note


def _state(query: QueryProgress) -> str:
    return "" if query.health is None else query.health.state


def _ended(sentence: str) -> str:
    return f"{sentence.rstrip('.')}."
