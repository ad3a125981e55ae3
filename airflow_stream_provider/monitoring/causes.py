"""Needs that many streams share: what their absence explains in each, and what a look remembers of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.lifecycle.stored import parse_object
from airflow_stream_provider.lifecycle.texts import count
from airflow_stream_provider.monitoring.folder_reading import FolderReading
from airflow_stream_provider.monitoring.health import TRANSIENT_SECONDS
from airflow_stream_provider.monitoring.incidents import IncidentKind, IncidentState, Stored, Symptom
from airflow_stream_provider.monitoring.readings import Reading
from airflow_stream_provider.planning.stream_health import IllQuery, judge_queries
from airflow_stream_provider.spec.stream import StreamSpec

# The watch itself fails, or a control root is away: two looks in a row at one a minute. Drivers halt without their
# control folder after some minutes, so the watch waits no longer.
FAILING_SECONDS = 50.0
# For so long after what they need is back, streams and queries that went down without it are taken to be on their way.
RETURN_SECONDS = 300.0
_RETURN = frozenset({IncidentKind.DOWN, IncidentKind.QUERY})
# So many streams are named.
NAMED = 5

_LAGS = frozenset({IncidentKind.LAG, IncidentKind.LAG_UNKNOWN, IncidentKind.OFFSETS_GROUP})
_EXPLAINED: Mapping[IncidentKind, frozenset[IncidentKind]] = {
    IncidentKind.KAFKA: _LAGS | {IncidentKind.DOWN, IncidentKind.QUERY},
    IncidentKind.CLUSTER: frozenset({IncidentKind.DOWN}),
    # Drivers that cannot reach their control folder halt.
    IncidentKind.CONTROL: frozenset({IncidentKind.DOWN, IncidentKind.WATCH}),
    IncidentKind.CHECKPOINTS: frozenset({IncidentKind.LAG_UNKNOWN, IncidentKind.QUERY}),
}
_WORDS = {
    IncidentKind.KAFKA: "Kafka",
    IncidentKind.CLUSTER: "cluster",
    IncidentKind.CONTROL: "control root",
    IncidentKind.CHECKPOINTS: "checkpoint storage of",
}
_MEANS = {
    IncidentKind.KAFKA: "The lag is unknown of",
    IncidentKind.CLUSTER: "What dies there is not brought back:",
    IncidentKind.CONTROL: "Nothing is known of",
    IncidentKind.CHECKPOINTS: "The lag is unknown of",
}


@dataclass(frozen=True)
class Cause:
    """A Kafka, a cluster, a control root, or the checkpoints of its streams, in one look.

    :param kind: KAFKA, CLUSTER, CONTROL or CHECKPOINTS.
    :param name: connection id, or control URL.
    :param streams: those looked at that need it, by name.
    :param problem: why it is out of reach; empty: it is not.
    :param down: streams without a driver that this explains: they have no incident of their own.
    :param known: those that were down at the look before, so that people have been told.
    """

    kind: IncidentKind
    name: str
    streams: Sequence[str]
    problem: str = ""
    down: Sequence[str] = ()
    known: Collection[str] = ()

    @property
    def subject(self) -> str:
        """The name of the place in alerts."""
        return f"{_WORDS[self.kind]} {self.name}"

    @property
    def symptom(self) -> Symptom:
        """The symptom that this look finds: people are told once it has been bad for long enough."""
        if not self.problem:
            return Symptom(Health.PASS, for_at_least=0.0)
        says = f"{self.problem} {_MEANS[self.kind]} {named(self.streams)}." if self.streams else self.problem
        new = set(self.down) - set(self.known)
        if self.down:
            # First, because a person who is woken reads only the beginning: something must be done now.
            says = f"Down: {named(self.down, new)}. {says}"
        return Symptom(Health.FAIL, says, self._patience, worse=bool(new))

    @property
    def _patience(self) -> float:
        if self.kind is IncidentKind.CONTROL:
            return FAILING_SECONDS
        # A stream that is down for want of it is told of as soon as any other.
        return 0.0 if self.down else TRANSIENT_SECONDS


def explained(
    kind: IncidentKind,
    bad_at: float | None,
    problem: str,
    now: float,
    *,
    failed: bool,
    ill: Collection[IllQuery] = (),
    stuck: bool = False,
) -> frozenset[IncidentKind]:
    """Return which kinds of incidents of a stream something that it needs explains.

    :param kind: of what it needs.
    :param bad_at: the last look at which that was out of reach, seconds since 1970; None: never.
    :param problem: why it is out of reach now; empty: it is not.
    :param failed: whether the stream is down because its queries have failed.
    :param ill: its queries that are ill.
    :param stuck: whether the stream is not on its way back without a person.
    """
    back = bad_at is not None and now - bad_at < RETURN_SECONDS
    found = _EXPLAINED[kind] if problem else _EXPLAINED[kind] & _RETURN if back else frozenset()
    if not ill or not all(query.waits if kind is IncidentKind.CHECKPOINTS else query.needs_kafka for query in ill):
        found -= {IncidentKind.QUERY}
    if stuck and not problem:
        found -= {IncidentKind.DOWN}
    return found if may_end(kind, failed=failed) else found - {IncidentKind.DOWN}


def may_end(kind: IncidentKind, *, failed: bool) -> bool:
    """Whether the absence of something may be why a stream is down.

    Without Kafka queries fail, and whatever starts them again; but no driver falls silent. Without the cluster drivers
    fall silent; but one that says itself that its queries cannot go on says why, and the cluster is not it.

    :param failed: see `queries_failed`.
    """
    if kind is IncidentKind.KAFKA:
        return failed
    return not (kind is IncidentKind.CLUSTER and failed)


def queries_failed(state: StreamState) -> bool:
    """Whether a stream is down because its queries have failed, and for no other reason."""
    return state.phase is StreamPhase.FAILED and not state.must_fence


def named(streams: Iterable[str], first: Collection[str] = ()) -> str:
    """Return how many streams these are, and some of their names, those in `first` before the others."""
    names = sorted(streams, key=lambda name: (name not in first, name))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{count(len(names), 'stream')} ({', '.join(names[:NAMED])}{more})" if names else "no stream"


# The memory forgets a subject that was not looked at for so long: no stream needs it any more, or it has another name.
FORGOTTEN_SECONDS = 86400.0
# For so long it is remembered that something was bad which is well again.
LATELY_SECONDS = 600.0
# Characters of a description that are kept. Each look that finds it again tells all of it.
KEPT = 200

Subject = tuple[IncidentKind, str]


@dataclass(frozen=True)
class Remembered:
    """One thing that was out of reach, or one stream that could not be watched.

    :param at: the last look that judged it, seconds since 1970.
    :param bad_at: the last of those that found it bad for some while; None: none did lately.
    :param down: the streams that are down for want of it.
    """

    state: IncidentState
    at: float
    bad_at: float | None = None
    down: tuple[str, ...] = ()

    @property
    def matters(self) -> bool:
        """Whether the next look must know of it."""
        state = self.state
        return bool(self.bad_at or state.streaks.bad or state.incident or state.acknowledged)

    @property
    def shortened(self) -> Remembered:
        """The same with the beginning of its description."""
        return replace(self, state=replace(self.state, description=self.state.description[:KEPT]))


def _rows(subjects: dict[Subject, Remembered]) -> list[tuple[IncidentKind, str, Remembered]]:
    return [(kind, name, each) for (kind, name), each in subjects.items()]


@dataclass
class FolderMemory(Stored):
    """The memory that looks hand to each other. A healthy subject leaves nothing in it.

    :param at: when it was left, seconds since 1970: of several the newest counts.
    :param looked: when the last look began that looked at what was due; 0: none has.
    :param subjects: by kind and name, what is, or was lately, wrong.
    :param not_reached: by stream, since when looks have had no time for it.
    :param changed: by stream the wish for which an upgrade was due (`upgrade.on_change`).
    :param runs: by stream that is not well, the last runs that were triggered to bring it back.
    """

    at: float = 0.0
    looked: float = 0.0
    subjects: Annotated[
        dict[Subject, Remembered],
        BeforeValidator(lambda rows: {(kind, name): each for kind, name, each in rows}),
        PlainSerializer(_rows),
    ] = field(default_factory=dict)
    not_reached: dict[str, float] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    runs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    version: Literal[1] = 1

    @classmethod
    def read(cls, data: Any) -> FolderMemory:
        """Return the memory that an earlier look has left; an empty one where it is damaged or of another version.

        :param data: the note of a control root, or a JSON object; None: there is none.
        """
        try:
            return cls.from_json(parse_object(data) if isinstance(data, bytes) else data) if data else cls()
        except (ValueError, TypeError) as error:
            log.warning("What the last look has left cannot be used; people may be told again: %s", error)
            return cls()

    def kept(self, now: float) -> FolderMemory:
        """Return the memory without what is well or was not looked at for a day."""
        subjects = {
            subject: each.shortened
            for subject, each in self.subjects.items()
            if now - each.at < FORGOTTEN_SECONDS and each.matters
        }
        since = {name: at for name, at in self.not_reached.items() if now - at < FORGOTTEN_SECONDS}
        return replace(self, at=now, subjects=subjects, not_reached=since)

    def first(self, names: Iterable[str]) -> list[str]:
        """Return these streams in the order in which to look at them: first those for which there was no time, and last
        those that could not be looked at, which may hang again.
        """
        return sorted(
            names, key=lambda name: (name not in self.not_reached, (IncidentKind.WATCH, name) in self.subjects)
        )

    def reached(self, names: Iterable[str], left_out: Collection[str], at: float) -> None:
        """Keep for which of the streams of a look, `names`, there was no time."""
        for name in names:
            since = self.not_reached.pop(name, at)
            if name in left_out:
                self.not_reached[name] = since

    def judge(self, subject: Subject, symptom: Symptom, at: float, down: Sequence[str] = ()) -> None:
        """Follow one subject with what a look says of it; `down`: the streams that are down for want of it."""
        kind, name = subject
        known = self.subjects.get(subject) or Remembered(IncidentState(), at)
        state = known.state.after(f"{name}-{kind.value}", symptom, at)
        # A moment puts no driver to its end.
        lasts = state.streaks.bad is not None and at - state.streaks.bad >= FAILING_SECONDS
        lately = known.bad_at if known.bad_at is not None and at - known.bad_at < LATELY_SECONDS else None
        self.subjects[subject] = Remembered(state, at, at if lasts else lately, tuple(down))

    def bad_at(self, subject: Subject) -> float | None:
        """Return the last look that found a subject bad; None when none did lately."""
        known = self.subjects.get(subject)
        return None if known is None else known.bad_at

    def down(self, subject: Subject) -> tuple[str, ...]:
        """Return the streams that were down for want of a subject at the last look that judged it."""
        known = self.subjects.get(subject)
        return () if known is None else known.down

    def is_known(self, stream: str) -> bool:
        """Return whether somebody was told that a stream cannot be watched."""
        known = self.subjects.get((IncidentKind.WATCH, stream))
        return known is not None and bool(known.state.acknowledged)

    def told(self, subject: Subject, state: IncidentState) -> None:
        """Keep who was told of a subject."""
        self.subjects[subject] = replace(self.subjects[subject], state=state)

    def open_incidents(self) -> dict[Subject, str]:
        """Return the ids of the open incidents."""
        return {subject: each.state.incident.id for subject, each in self.subjects.items() if each.state.incident}


log = logging.getLogger(__name__)


class LookCauses:
    """The causes of one look: `found`, by kind and name.

    :param reading: what the look finds out.
    :param memory: of the looks before; it learns what this one says of each cause.
    :param folder: the watched streams of the folder, also those that are not looked at now, by name.
    :param now: time of the look, seconds since 1970.
    """

    def __init__(
        self, reading: FolderReading, memory: FolderMemory, folder: Mapping[str, StreamSpec], now: float
    ) -> None:
        self.found: dict[Subject, Cause] = {}
        self._reading = reading
        self._memory = memory
        self._folder = folder
        self._now = now

    def judge(self, down: Collection[str]) -> None:
        """Follow Kafkas, clusters and checkpoints.

        :param down: streams that have no driver, and no incident of their own for that.
        """
        reading = self._reading
        for kafka in reading.kafkas.values():
            self._follow((IncidentKind.KAFKA, kafka.conn_id), kafka.problem, down)
        for cluster in reading.clusters.values():
            self._follow((IncidentKind.CLUSTER, cluster.conn_id), cluster.problem, down)
        for url, root in reading.roots.items():
            if root.checkpoint_problem is not None:
                self._follow((IncidentKind.CHECKPOINTS, url), root.checkpoint_problem)

    def judge_roots(self) -> None:
        """Follow the control roots, once it is known whether they can be written."""
        for url, root in self._reading.roots.items():
            # A look that says nothing of the root ends no incident of it.
            if root.problem or not root.unclear:
                self._follow((IncidentKind.CONTROL, url), root.problem)

    def explained(self, stream: Reading, *, stuck: bool = False) -> frozenset[IncidentKind]:
        """Return the kinds of incidents that something explains which the stream needs; see `explained`."""
        reading, spec = self._reading, stream.spec
        root = reading.roots[spec.control]
        problems = {
            IncidentKind.CONTROL: root.problem,
            IncidentKind.KAFKA: reading.kafkas[spec.kafka].problem if spec.kafka else "",
            IncidentKind.CHECKPOINTS: root.checkpoint_problem or "",
            IncidentKind.CLUSTER: reading.clusters[spec.cluster].problem,
        }
        failed = queries_failed(stream.snapshot.state)
        ill = judge_queries(stream.snapshot).ill
        every = (
            explained(
                kind,
                self._memory.bad_at((kind, name)),
                problems[kind],
                self._now,
                failed=failed,
                ill=ill,
                stuck=stuck,
            )
            for kind, name in self._needs(spec.name)
        )
        unread = {IncidentKind.LAG_UNKNOWN} if reading.awaits_lag(spec.name) else ()
        return frozenset(unread).union(*every)

    def _needs(self, name: str) -> Iterator[Subject]:
        """Yield what a stream of the folder needs."""
        spec = self._folder[name]
        yield IncidentKind.CONTROL, spec.control
        if spec.kafka:
            yield IncidentKind.KAFKA, spec.kafka
            yield IncidentKind.CHECKPOINTS, spec.control
        yield IncidentKind.CLUSTER, spec.cluster

    def _follow(self, subject: Subject, problem: str, down: Collection[str] = ()) -> None:
        kind, name = subject
        streams = [each for each in self._folder if subject in self._needs(each)]
        known = self._memory.down(subject)
        # A stream that is not looked at now stays as it was.
        for_it = [each for each in streams if self._may_be_down_for(kind, each, down, known)] if problem else []
        cause = Cause(kind, name, streams, problem, for_it, known)
        self._memory.judge(subject, cause.symptom, self._now, for_it)
        self.found[subject] = cause
        if problem:
            log.warning("%s: %s", cause.subject, problem)

    def _may_be_down_for(self, kind: IncidentKind, name: str, down: Collection[str], known: Collection[str]) -> bool:
        stream = self._reading.streams.get(name)
        if stream is None:
            return name in known
        return name in down and may_end(kind, failed=queries_failed(stream.snapshot.state))
