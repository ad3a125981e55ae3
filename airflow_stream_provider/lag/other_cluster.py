"""Refuse to measure a query on a Kafka that it does not read: topics of the same name may be on both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from airflow_stream_provider.checkpoint.logs import KafkaOffsets
from airflow_stream_provider.kafka.settings import OTHER_ADDRESSES
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource, addresses

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

K = TypeVar("K")


@dataclass(frozen=True)
class SourcedOffsets:
    """Offsets of a query whose Kafka sources are known.

    :param sources: all of its Kafka sources.
    """

    offsets: CommittedOffsets
    sources: tuple[KafkaSource, ...]

    @property
    def query(self) -> str:
        """The query's name."""
        return self.offsets.query

    def read(self) -> Committed:
        """Read the offsets, and add which Kafka they are of and which topics are read uncommitted.

        A topic without committed offsets that a source subscribes to by name, such as one that a new release has added,
        is there without partitions: all its records wait, as Spark reads it from the first one.
        """
        found = self.offsets.read()
        window = tuple((at, self._read(offsets)) for at, offsets in found.window)
        found = replace(found, offsets=self._read(found.offsets), window=window)
        if found.offsets:
            named = (each for source in self.sources if source.option == "subscribe" for each in source.names)
            found = replace(found, offsets={**{topic: {} for topic in named}, **found.offsets})
        levels = {source.read_committed for source in self.sources}
        uncommitted = (topic for topic in found.offsets if len(levels) > 1 and not self._reads_committed(topic))
        return replace(
            found,
            read_committed=True in levels,
            uncommitted=frozenset(uncommitted),
            servers=tuple(source.servers for source in self.sources),
        )

    def _read(self, offsets: KafkaOffsets) -> KafkaOffsets:
        # Those of another source, such as an event hub's, may have the same form.
        return {topic: each for topic, each in offsets.items() if any(s.may_read(topic) for s in self.sources)}

    def _reads_committed(self, topic: str) -> bool:
        levels = {source.read_committed for source in self.sources if source.may_read(topic)}
        return levels == {True}


def refuse_others(client: KafkaClient, queries: Iterable[tuple[K, Committed]]) -> list[tuple[K, Committed]]:
    """Return the queries; instead of the offsets of one that reads another Kafka, the problem.

    The same Kafka is one that shares an address with the connection's bootstrap servers or with the brokers there. The
    brokers are asked for only where the bootstrap servers differ.
    """
    found = list(queries)
    known = [servers for _, query in found for servers in query.servers if servers]
    if not known:
        return found
    ours = set(client.addresses)
    if any(ours.isdisjoint(servers) for servers in known):
        brokers = client.describe_cluster()["brokers"]
        ours |= set(addresses(",".join(f"{broker['host']}:{broker['port']}" for broker in brokers)))
    return [(key, _refused(client, query, ours)) for key, query in found]


def _refused(client: KafkaClient, query: Committed, ours: set[str]) -> Committed:
    other = next((servers for servers in query.servers if servers and ours.isdisjoint(servers)), None)
    if other is None:
        return query
    problem = (
        f"The query {query.query} reads the Kafka at {','.join(other)}, which seems not to be the one of the "
        f"connection {client.conn_id!r} ({','.join(sorted(ours))}): name the connection of that Kafka in the stream's "
        "YAML, or, if both are the same Kafka, put the query's addresses into the connection's extra as "
        f"{OTHER_ADDRESSES}."
    )
    return Committed(query.query, problem=problem)
