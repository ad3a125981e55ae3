"""The places that many streams need, and what their absence explains in each stream: people are told once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_stream_provider.lag.formatting import count
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.monitoring.health import TRANSIENT_SECONDS
from airflow_stream_provider.monitoring.incidents import IncidentKind, Symptom
from airflow_stream_provider.planning.query_health import IllQuery

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
        says = f"{self.problem} {_MEANS[self.kind]} {named(self.streams)}."
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
    kind: IncidentKind, bad_at: float | None, problem: str, now: float, *, failed: bool, ill: Collection[IllQuery] = ()
) -> frozenset[IncidentKind]:
    """Return which kinds of incidents of a stream something that it needs explains.

    :param kind: of what it needs.
    :param bad_at: the last look at which that was out of reach, seconds since 1970; None: never.
    :param problem: why it is out of reach now; empty: it is not.
    :param failed: whether the stream is down because its queries have failed.
    :param ill: its queries that are ill.
    """
    back = bad_at is not None and now - bad_at < RETURN_SECONDS
    found = _EXPLAINED[kind] if problem else _EXPLAINED[kind] & _RETURN if back else frozenset()
    if not ill or not all(query.waits if kind is IncidentKind.CHECKPOINTS else query.needs_kafka for query in ill):
        found -= {IncidentKind.QUERY}
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
