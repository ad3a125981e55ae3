"""From where a stream reads Kafka records again, if a person asks for a time. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_stream_provider.lag.report import Alarm, Ceilings, QueryLag
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import count, duration
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.fields import seconds

# A record that is dated at most so many seconds in the future counts as one of now: clocks differ.
FUTURE_SECONDS = 60.0


@dataclass(frozen=True)
class PartitionPast:
    """Kafka's state of one partition that a query reads.

    :param committed: the next offset that the query reads.
    :param first: offset of the first record since the time that is asked for; None: there is none.
    :param first_at: when that record was written, by its own timestamp, in seconds since 1970.
    :param log_start: the first offset that Kafka still has.
    :param oldest: offset of the first record that Kafka still has; None: it has none. It is behind `log_start` where
        that one was compacted away.
    :param kept_since: since when Kafka has deleted no record, by its age, as the topic is set up now; None: that is not
        known, such as where it deletes by size.
    """

    topic: str
    partition: int
    committed: int
    first: int | None
    first_at: float
    log_start: int
    oldest: int | None = None
    kept_since: float | None = None

    def may_have_lost(self, to: float) -> bool:
        """Return whether Kafka may have deleted records since this time in front of the first one that it has."""
        nothing_before = self.first is not None and self.first <= max(self.log_start, self.oldest or 0)
        return self.log_start > 0 and nothing_before and self.first_at > to

    def deletes_since(self, to: float) -> bool:
        """Return whether what was deleted may be of this time or later, by how the topic is set up now."""
        return self.kept_since is None or to < self.kept_since


@dataclass(frozen=True)
class FoundRewind:
    """Where a time is in Kafka.

    :param wanted: None: nothing would be read again.
    :param lines: what is read again, and what may be missing of it, a sentence for each query and topic.
    :param near: what Kafka is about to delete of it, a sentence for each query.
    :param problem: why it cannot be done, and what to do instead; empty: it can.
    """

    wanted: WantedRewind | None = None
    lines: tuple[str, ...] = ()
    problem: str = ""
    near: tuple[str, ...] = ()


def moment(text: str, now: float) -> float:
    """Return a time that a person gave: ISO 8601, in UTC where it names no zone, or a duration before now.

    The text of `lifecycle.rewind.at` is one, too.

    :param now: seconds since 1970.
    :return: seconds since 1970, in whole milliseconds, as Kafka knows times.
    :raises SpecError: it is neither, or it is not in the past.
    """
    said = text.strip()
    try:
        if said.endswith(("s", "m", "h", "d")):
            when = datetime.fromtimestamp(now - float(seconds(said)), UTC)
        else:
            when = datetime.fromisoformat(said.removesuffix("UTC").rstrip())
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        found = when.replace(microsecond=when.microsecond // 1000 * 1000).timestamp()
    except (ValueError, OverflowError, OSError):
        found = -1.0
    if not 0 <= found < now:
        raise SpecError(
            f"{said!r:.60} is no time in the past.",
            next_step="Write it like 2026-11-25T02:00 (UTC), 2026-11-25T02:00+01:00, or 2h, which is two hours ago.",
        )
    return found


def near_deletion(found: QueryLag, ceilings: Ceilings) -> str:
    """Return a sentence where Kafka may delete what a query reads again before it has read it; empty: it does not.

    :param found: the lag of the query once it has gone back.
    :param ceilings: of which `retention` says how long before the deletion that is, as for what any query reads next.
    """
    if not found.alarm(Alarm.RETENTION, ceilings):
        return ""
    return (
        f"Kafka deletes the first records that the query {found.query} reads again in "
        f"{duration(found.retention_seconds)}. What is deleted before it is read stops the query, or with "
        "failOnDataLoss=false is left out without a word: give a later time, or let the topic keep its records for "
        "longer first (retention.ms)."
    )


def find(to: float, queries: Mapping[str, Iterable[PartitionPast]], now: float = math.inf) -> FoundRewind:
    """Return from where queries read again, by what Kafka says of their partitions.

    A partition without a record since then, or that the query has not read so far yet, stays where it is: no record is
    ever skipped.

    :param now: seconds since 1970. Records with a later time are told: by them a partition may go back for ever.
    """
    back: dict[str, dict[str, dict[int, int]]] = {}
    lines = []
    for query, partitions in queries.items():
        records: dict[str, int] = {}
        emptied: dict[str, int] = {}
        gaps: dict[str, int] = {}
        future: dict[str, PartitionPast] = {}
        for each in partitions:
            if each.first is None or each.first >= each.committed:
                if 0 < each.committed <= each.log_start:
                    emptied[each.topic] = emptied.get(each.topic, 0) + 1
                continue
            if each.may_have_lost(to):
                if each.deletes_since(to):
                    return FoundRewind(problem=_gone(query, each, to))
                gaps[each.topic] = gaps.get(each.topic, 0) + 1
            if each.first_at > now + FUTURE_SECONDS:
                future.setdefault(each.topic, each)
            back.setdefault(query, {}).setdefault(each.topic, {})[each.partition] = each.first
            records[each.topic] = records.get(each.topic, 0) + each.committed - each.first
        lines += [f"{query}: {count(number, 'record')} of {topic}." for topic, number in sorted(records.items())]
        lines += [
            f"{query}: of {count(number, 'partition')} of {topic} Kafka has deleted all that was read. Records since "
            f"{at(to)} that were among it are not read again."
            for topic, number in sorted(emptied.items())
        ]
        lines += [
            f"{query}: of {count(number, 'partition')} of {topic} Kafka has deleted the records before the first one "
            f"that is read again. By the topic's retention.ms they were older than {at(to)}, unless that was raised "
            "since, or somebody has deleted records by hand."
            for topic, number in sorted(gaps.items())
        ]
        lines += [
            f"{query}: {topic}-{each.partition} is read again from offset {each.first} on, whose record is dated in "
            f"the future ({at(each.first_at)}): what is behind it is read again for any time that you give."
            for topic, each in sorted(future.items())
        ]
    return FoundRewind(WantedRewind(to, back) if back else None, tuple(lines))


def read_again(wanted: WantedRewind, beat: Heartbeat | None) -> dict[str, Any]:
    """Return what a deployment reads again once it holds, for the person who approves it; as a JSON object.

    :param beat: of the driver that holds now: by its last commits the records are counted. None: that is not known.
    """
    commits = {query.name: query.commits[-1].offsets for query in (beat.queries if beat else ()) if query.commits}
    queries: dict[str, dict[str, Any]] = {}
    for name, topics in sorted(wanted.queries.items()):
        for topic, parts in sorted(topics.items()):
            ends = commits.get(name, {}).get(topic, {})
            known = all(str(part) in ends for part in parts)
            records = sum(max(0, ends[str(part)] - offset) for part, offset in parts.items()) if known else "not known"
            offsets = {str(part): offset for part, offset in sorted(parts.items())}
            queries.setdefault(name, {})[topic] = {"records_so_far": records, "from_offsets": offsets}
    return {"since": at(wanted.to), "queries": queries}


def read_rewind(text: str) -> WantedRewind | None:
    """Return what the form of ``NAME__upgrade`` says is to be read again; None: nothing.

    :raises SpecError: it is not what `airflow streams rewind` makes of a time.
    """
    if not text:
        return None
    try:
        data: Any = json.loads(text)
    except ValueError:
        data = None
    return WantedRewind.from_json(data)


def refuse_another_holder(text: str, state: StreamState, identity: TaskIdentity) -> None:
    """Check that the holder is still that of the approval of a rewind, unless the run has begun with it.

    Meanwhile another rewind may have been done, or another release deployed; where the form asks, for an hour.

    :param text: as of `read_rewind`, and sound.
    :raises SpecError: another one holds, or none; or the approval names no holder.
    """
    said, holds = json.loads(text).get("held"), state.holding_deployment
    begun = any(each.by.startswith(identity.run) for each in state.wishes.values())
    if begun or (holds is not None and holds.id == said):
        return
    if not said:
        raise SpecError(
            "What is to be read again does not say who held the stream when somebody asked for it.",
            next_step="Use `airflow streams rewind`, or the operation `rewind` of the form; fill in nothing by hand.",
        )
    raise SpecError(
        f"{said!s:.100} held the stream when it was asked for, and {holds.id if holds else 'nobody'} does now.",
        next_step="Nothing was touched. Look what has happened since (`airflow streams history`); then ask again.",
    )


def _gone(query: str, each: PartitionPast, to: float) -> str:
    return (
        f"Kafka may have deleted records since {at(to)} that the query {query} would read again: the first one that is "
        f"left of {each.topic}-{each.partition} is offset {each.log_start}, of {at(each.first_at)}. Give a later time."
    )
