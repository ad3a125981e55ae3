"""Ask Kafka where a time is in the topics of a stream, and its checkpoints whether their queries can go back there."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.checkpoint import check_rewindable, local_path
from airflow_stream_provider.checkpoint.files import REPLACES
from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.lag.byte_retention import KEYS, size_limit
from airflow_stream_provider.lag.committed_offsets import Committed, refuse_others
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.partition_offsets import EARLIEST, retention_seconds
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lag.targets import stream_sources
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.rewind import WantedRewind, back_to
from airflow_stream_provider.planning.kept_offsets import kept_offsets
from airflow_stream_provider.planning.rewind import FoundRewind, PartitionPast, find, near_deletion
from airflow_stream_provider.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook
    from airflow_stream_provider.kafka.client import KafkaClient

_SCRIPT = (
    "Give it a new checkpoint instead, and a file sink a new folder, too, in a release whose script says where it "
    "begins (startingOffsets)."
)


def find_rewind(hook: StreamHook, snapshot: Snapshot, to: float | None, query: str, ceilings: Ceilings) -> FoundRewind:
    """Return from where the queries of the driver that holds read records again; changes nothing.

    :param to: the time, in seconds since 1970; None: none was given.
    :param query: which query; empty: all, of which each has to read Kafka alone.
    :param ceilings: of which `retention` says how long before its deletion a record is near to it.
    :raises StreamError: Kafka does not answer, or refuses the connection.
    """
    if to is None:
        return FoundRewind(problem="No time was given to go back to. Say one with `--to`, or as `to` in the form.")
    holder = snapshot.state.incarnations.get(snapshot.state.holder or "")
    if holder is None:
        return FoundRewind()  # refused by what is foreseen
    if hook.kafka_conn_id is None:
        return FoundRewind(
            problem="Its YAML names no connection `kafka`, so nobody can tell which records are since then."
        )
    named = {str(each["name"]): each for each in holder.queries}
    beat = snapshot.holder_heartbeat
    late = [each.name for each in (beat.queries if beat else ()) if each.name not in named and not each.ended]
    problem = next((_started_late(name) for name in late if query in ("", name)), "")
    chosen = {query: named[query]} if query in named else {} if query else named
    if not chosen and not problem:
        return FoundRewind(problem=f"There is no query {query!r:.70}. There are: {', '.join(sorted(named)) or 'none'}.")
    problem = problem or next(filter(None, map(_why_not, chosen.values())), "")
    if problem:
        return FoundRewind(problem=problem if query else f"{problem} Or name one that can, with `--query`.")
    store = hook.control_log.store
    sources = stream_sources(hook.stream, hook.control, snapshot.state, snapshot.heartbeats, store)
    from airflow_stream_provider.kafka.client import KafkaClient

    with KafkaClient(hook.kafka_conn_id, kafka_extra(hook.kafka_conn_id)) as client:
        read = [(each.query, each.read()) for each in sources if each.query in chosen]
        found = dict(refuse_others(client, read))
        unknown = next((each.problem for each in found.values() if each.problem), "")
        if unknown:
            return FoundRewind(problem=unknown)
        wanted = _find(client, to, found)
        return replace(wanted, near=_near(client, wanted.wanted, found, holder.queries, ceilings))


def _started_late(name: str) -> str:
    return (
        f"The query {name} cannot be rewound: the script has started it only when its driver held, and so the next one "
        f"reads at once what it starts late. {_SCRIPT}"
    )


def _why_not(query: Mapping[str, Any]) -> str:
    """Return why a query cannot go back, as far as that is seen from here; its driver looks at it again."""
    name, location = query["name"], str(query.get("checkpoint") or "")
    other = next((each for each in query.get("sources", ()) if not each.startswith("kafka:")), "")
    if other or not query.get("sources"):
        return f"The query {name} cannot be rewound: it does not read Kafka alone ({other or 'no source'}). {_SCRIPT}"
    if query.get("fingerprint"):
        return (
            f"The query {name} cannot be rewound: it keeps state, which has these records already, and would count "
            f"them twice. {_SCRIPT}"
        )
    try:
        folder = local_path(location)
    except CheckpointError:
        if location.partition(":")[0].lower() in REPLACES:
            return ""  # its driver looks at it
        return (
            f"The query {name} cannot be rewound: its checkpoint {location} is neither in a mounted folder nor on HDFS "
            f"or S3A, where a file can be replaced at once. {_SCRIPT}"
        )
    try:
        if folder.is_dir():
            check_rewindable(folder, query.get("sources", ()))
    except CheckpointError as error:
        return str(error)
    except OSError:
        pass  # it is the drivers' alone: theirs to say
    return ""


def _find(client: KafkaClient, to: float, queries: Mapping[str, Committed]) -> FoundRewind:
    from kafka import TopicPartition

    partitions = {
        TopicPartition(topic, number)
        for each in queries.values()
        for topic, numbers in each.offsets.items()
        for number in numbers
    }
    firsts = client.offsets(dict.fromkeys(partitions, round(to * 1000)))
    starts = client.offsets(dict.fromkeys(partitions, EARLIEST))
    # Records of any time: whether there is one in front of the first one since then.
    oldest = client.offsets(dict.fromkeys(partitions, 0))
    for problem in (*firsts.problems.values(), *starts.problems.values(), *oldest.problems.values()):
        return FoundRewind(problem=f"Kafka does not say where that time is: {problem.reason}")
    now = time.time()
    kept = _kept_since(client, {each.topic for each in partitions}, now)
    past: dict[str, list[PartitionPast]] = {}
    for name, each in queries.items():
        for partition in sorted(partitions):
            committed = each.committed(partition)
            if committed is None:
                continue
            first = firsts[partition]
            past.setdefault(name, []).append(
                PartitionPast(
                    partition.topic,
                    partition.partition,
                    committed,
                    None if first.offset < 0 else first.offset,
                    first.timestamp / 1000,
                    starts[partition].offset,
                    None if oldest[partition].offset < 0 else oldest[partition].offset,
                    kept.get(partition.topic),
                )
            )
    return find(to, past, now)


def _kept_since(client: KafkaClient, topics: Collection[str], now: float) -> dict[str, float]:
    """Return since when Kafka has deleted no record, of the topics that delete by age alone; see `PartitionPast`."""
    answers = client.configs(topics=topics, keys=(*KEYS, "retention.ms"))
    kept = {str(topic): retention_seconds(settings) for topic, settings in answers.items() if not size_limit(settings)}
    return {topic: now - seconds for topic, seconds in kept.items() if seconds is not None}


def _near(
    client: KafkaClient,
    wanted: WantedRewind | None,
    queries: Mapping[str, Committed],
    described: Sequence[Mapping[str, Any]],
    ceilings: Ceilings,
) -> tuple[str, ...]:
    """Find records that Kafka is about to delete, or does not have, by the queries' lag once they have gone back."""
    from airflow_stream_provider.lag.measure import measure_each

    if wanted is None:
        return ()
    back = [
        replace(each, offsets=back_to(each.offsets, wanted.queries[name]), window=())
        for name, each in queries.items()
        if name in wanted.queries
    ]
    report = measure_each(client, {None: back}, {None: Moments()})[None]
    kept = kept_offsets(report, described, ceilings)
    near = filter(None, (near_deletion(each, ceilings) for each in report.queries))
    return (*near, *kept.gone, *kept.skipped, *kept.unknown)
