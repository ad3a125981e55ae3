"""Whether Kafka still has what a stream reads next, and for how long. Pure.

Every start of the queries needs the records from the committed offsets on: a new release, the old one after a
roll-back, the watch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.lag.report import Alarm, Ceilings, LagReport, PartitionState, QueryLag
from airflow_stream_provider.lifecycle.texts import count, duration


@dataclass(frozen=True)
class KeptOffsets:
    """The findings on the committed offsets, a sentence for each query.

    :param gone: what the query needs next is not there any more, and the query stops with an error at that.
    :param skipped: the same, of queries whose sources say `failOnDataLoss` = false: they go on without a word.
    :param near: Kafka is about to delete it.
    :param unknown: it is not known.
    """

    gone: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((*self.gone, *self.skipped, *self.near, *self.unknown))


def kept_offsets(
    report: LagReport,
    queries: Sequence[Mapping[str, Any]],
    ceilings: Ceilings = Ceilings(),  # noqa: B008 - frozen
    *,
    only: Collection[str] | None = None,
) -> KeptOffsets:
    """Judge the committed offsets of a stream's queries by a lag report.

    :param queries: what the `standby` record of the driver that holds, or held last, says of them.
    :param ceilings: of which `retention` says how long before the deletion it is near; default: an hour, or half of
        what the topic keeps, if that is less.
    :param only: names of the queries that are judged; default: all.
    """
    lenient = {str(query.get("name")) for query in queries if _goes_on(query)}
    gone, skipped, near, unknown = [], [], [], []
    for query in report.queries:
        if only is not None and query.query not in only:
            continue
        lacks = " ".join(_lacks(query))
        if lacks and query.query in lenient:
            skipped.append(f"{lacks} With failOnDataLoss=false it goes on with what is left, and says nothing.")
        elif query.recreated:
            gone.append(
                f"{lacks} Where the new one has passed its offset, it has left out what lies before without a word; "
                "else it stops with an error at that (failOnDataLoss). Once that is made good, write `PATH: source`, "
                "with its checkpoint, in the form's `changed_checkpoints`."
            )
        elif lacks:
            gone.append(f"{lacks} It stops with an error at that (failOnDataLoss).")
        elif query.alarm(Alarm.RETENTION, ceilings):
            left = duration(query.retention_seconds)
            near.append(f"Kafka deletes the first records that the query {query.query} needs next in {left}.")
        elif query.problem or query.alarm(Alarm.RETENTION, ceilings) is None:
            why = f": {query.problem}" if query.problem else "."
            unknown.append(f"Whether Kafka still has what the query {query.query} reads next is not known{why}")
    return KeptOffsets(tuple(gone), tuple(skipped), tuple(near), tuple(unknown))


def _lacks(query: QueryLag) -> Iterable[str]:
    """Yield what a query needs next and Kafka does not have."""
    lost = [partition for partition in query.partitions if partition.lost]
    if lost:
        first = lost[0]
        yield (
            f"Kafka has deleted {count(query.lost, 'record')} that the query {query.query} has not read: of "
            f"{first.topic}-{first.partition} it needs offset {first.committed} next, and the log begins at "
            f"{first.log_start}."
        )
    if query.recreated:
        yield (
            f"The query {query.query} counts in a topic that was deleted and made anew since: "
            f"{', '.join(query.recreated)}."
        )
        return
    ahead = next((each for each in query.partitions if each.state is PartitionState.AHEAD_OF_END), None)
    if ahead is not None:
        yield (
            f"The query {query.query} needs offset {ahead.committed} of {ahead.topic}-{ahead.partition} next, and the "
            f"log ends at {ahead.end}: the topic was made anew, or records of it are lost."
        )
    missing = sorted({each.topic for each in query.partitions if each.state is PartitionState.UNKNOWN_TOPIC})
    if missing:
        yield f"The query {query.query} reads what Kafka does not have any more: {', '.join(missing)}."


def _goes_on(query: Mapping[str, Any]) -> bool:
    """Whether every Kafka source of a query passes over what is lost."""
    said = [str(source.get("failOnDataLoss", "true")).lower() for source in query.get("source_options") or ()]
    return bool(said) and set(said) == {"false"}
