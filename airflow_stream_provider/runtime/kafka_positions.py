"""Which Kafka a query reads, and how many records are before and behind a position there.

Asked through the client that Spark's connector has loaded into the driver's JVM, with the options of the sources.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.logs import KafkaOffsets
from airflow_stream_provider.lifecycle.kafka_source import (
    MAX_TOPIC_IDS,
    KafkaIds,
    KafkaSource,
    kafka_source,
    kafka_sources,
)
from airflow_stream_provider.runtime.describe import kafka_relations
from airflow_stream_provider.runtime.jvm import jvm
from airflow_stream_provider.runtime.kafka_client import answer_of, offsets_at, root_cause, with_admin
from airflow_stream_provider.runtime.managed_query import ManagedQuery

Place = tuple[str, int]
# The values in `startingOffsets` for the first and for the next record of a partition.
_EARLIEST, _LATEST = -2, -1
# Kafka's `Uuid.ZERO_UUID`.
_NO_ID = "A" * 22

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Log:
    """Kafka's part of a partition: the offsets of its first record, and of the next one that is written."""

    start: int
    end: int


def ask_kafka(query: ManagedQuery) -> Collection[str]:
    """Ask for the ids of the clusters that a query reads, and of its topics there.

    A cluster that does not answer is left out, and logged; so are topics that are not there. No ids are asked for of a
    source with more than MAX_TOPIC_IDS topics.

    :return: the topics that its checkpoint has offsets of.
    """
    query.kafka_ids.clear()
    relations = kafka_relations(query)
    new = not relations or checkpoints.boundary(query.checkpoint).offsets is None
    committed = {} if new else checkpoints.read(query.checkpoint).committed
    for relation in relations:
        source = kafka_source(dict(relation.extraOptions()))
        topics = [*dict.fromkeys((*source.names, *filter(source.may_read, committed)))]
        try:
            found = with_admin(relation, partial(_read_ids, topics if len(topics) <= MAX_TOPIC_IDS else ()))
        except Py4JError as error:
            where = ",".join(source.servers)
            log.warning("Which Kafka %s reads at %s is not known: %s", query.label, where, _why(error))
            continue
        before = query.kafka_ids.get(source.servers, KafkaIds())
        query.kafka_ids[source.servers] = KafkaIds(found.cluster, {**before.topics, **found.topics})
    return committed.keys()


def goes_on(query: ManagedQuery) -> list[str]:
    """Say what a query reads and leaves out where it goes on at its checkpoint's offsets in what it reads now."""
    committed = checkpoints.read(query.checkpoint).committed
    said = []
    for source, logs in _logs(query, committed):
        if logs is None:
            said.append(
                f"How much of {source.topics} the query {query.label} leaves out is not known: Kafka did not say."
            )
            continue
        positions = {place: committed.get(place[0], {}).get(place[1], each.start) for place, each in logs.items()}
        before = sum(max(0, min(at, logs[place].end) - logs[place].start) for place, at in positions.items())
        beyond = [
            f"{topic}-{number}" for (topic, number), at in sorted(positions.items()) if at > logs[topic, number].end
        ]
        said.append(
            f"The query {query.label} goes on in {source.topics} at the offsets of its checkpoint: of what Kafka has "
            f"there now, {before} records lie before them and are not read, and {_behind(logs, positions)} are read."
            + (f" The offsets of {', '.join(beyond)} lie beyond the end there." if beyond else "")
        )
    return said


def begins(query: ManagedQuery, former: Mapping[str, Any]) -> list[str]:
    """Say what a query reads that begins on a new checkpoint, and what that leaves out or repeats.

    :param former: what the `standby` record says of it with the checkpoint with which it ran before.
    """
    committed = checkpoints.read(str(former["checkpoint"])).committed
    clusters = {source.cluster for source in kafka_sources(former)} - {""}
    said = [
        f"The query {query.label} begins anew on {query.checkpoint}: what it reads once more, it writes once more. "
        "Counted now, while the release before goes on:"
    ]
    relations = kafka_relations(query)
    for relation, (source, logs) in zip(relations, _logs(query, committed)):
        where = _starting(dict(relation.extraOptions()))
        cluster = query.kafka_ids.get(source.servers, KafkaIds()).cluster
        why = "Kafka did not say" if logs is None else "it begins by a time" if where is None else ""
        if clusters and cluster and cluster not in clusters:
            why = "it is in another Kafka than before"
        if logs is None or where is None or why:
            said.append(f"How much of {source.topics} it leaves out or reads once more is not counted: {why}.")
            continue
        positions = {place: _resolved(where(place), each) for place, each in logs.items()}
        # A partition without a committed offset would have been read from its start.
        was = {place: committed.get(place[0], {}).get(place[1], logs[place].start) for place in positions}
        out = sum(max(0, at - max(was[place], logs[place].start)) for place, at in positions.items())
        again = sum(max(0, was[place] - max(at, logs[place].start)) for place, at in positions.items())
        said.append(
            f"In {source.topics} {_behind(logs, positions)} records are there to read, {again} of them once more, and "
            f"{out} that were not read on {former['checkpoint']} are left out."
        )
    if not relations:
        said.append("How much of its input it reads once more or leaves out is not counted: it reads no Kafka.")
    if query.writer_spec.foreach_batch is not None:
        said.append(
            "What its function has written under the ids of earlier batches, such as with Delta's txnAppId, is not "
            "seen: they begin with 0 again, and whatever knows them drops them."
        )
    return said


def _behind(logs: Mapping[Place, Log], positions: Mapping[Place, int]) -> int:
    return sum(max(0, each.end - max(positions[place], each.start)) for place, each in logs.items())


def _resolved(at: int, found: Log) -> int:
    return found.start if at == _EARLIEST else found.end if at == _LATEST else at


def _starting(options: Mapping[str, str]) -> Callable[[Place], int] | None:
    """Return where a source begins without a checkpoint, by partition; None: by a time."""
    given = {name.lower(): value for name, value in options.items()}
    if "startingtimestamp" in given or "startingoffsetsbytimestamp" in given:
        return None
    said = given.get("startingoffsets", "latest").strip()
    if said.lower() in ("earliest", "latest"):
        everywhere = _EARLIEST if said.lower() == "earliest" else _LATEST
        return lambda place: everywhere
    offsets = {topic: {int(n): int(at) for n, at in parts.items()} for topic, parts in json.loads(said).items()}
    return lambda place: offsets.get(place[0], {}).get(place[1], _EARLIEST)


def _logs(query: ManagedQuery, committed: KafkaOffsets) -> list[tuple[KafkaSource, dict[Place, Log] | None]]:
    """Return what Kafka has of each source's partitions, in the order of the plan; None where it does not say."""
    found: list[tuple[KafkaSource, dict[Place, Log] | None]] = []
    for relation in kafka_relations(query):
        source = kafka_source(dict(relation.extraOptions()))
        topics = source.names if source.option == "subscribe" else tuple(filter(source.may_read, committed))
        try:
            found.append((source, with_admin(relation, partial(_read_logs, topics))))
        except Py4JError as error:
            log.warning("What Kafka has of %s is not known: %s", source.topics, _why(error))
            found.append((source, None))
    return found


def _read_ids(topics: Sequence[str], admin: Any) -> KafkaIds:
    cluster, ids = answer_of(admin.describeCluster().clusterId()), {}
    asked = admin.describeTopics(_java_list(topics)).topicNameValues() if topics else {}
    for topic in topics:
        try:
            ids[topic] = str(answer_of(asked.get(topic)).topicId())
        except Py4JError as error:
            log.debug("The id of the topic %s is not known: %s", topic, _why(error))
    # A broker of before Kafka 2.8 gives them all the same id.
    return KafkaIds(str(cluster or ""), {topic: each for topic, each in ids.items() if each != _NO_ID})


def _read_logs(topics: Sequence[str], admin: Any) -> dict[Place, Log]:
    described = answer_of(admin.describeTopics(_java_list(topics)).allTopicNames())
    places = [(topic, number) for topic in topics for number in range(described.get(topic).partitions().size())]
    starts, ends = (offsets_at(admin, places, spec) for spec in ("earliest", "latest"))
    return {place: Log(starts[place], ends[place]) for place in places}


def _java_list(texts: Sequence[str]) -> Any:
    found = jvm().java.util.ArrayList()
    for text in texts:
        found.add(text)
    return found


def _why(error: Py4JError) -> str:
    # The JVM's text of a failed call quotes the options; that of its cause does not.
    return root_cause(error.java_exception) if isinstance(error, Py4JJavaError) else type(error).__name__
