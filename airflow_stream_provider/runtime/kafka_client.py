"""The consumer group and the ends of Kafka's logs, through the Kafka client in the driver's JVM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.lifecycle.rewind import Offsets
from airflow_stream_provider.runtime.describe import kafka_relations
from airflow_stream_provider.runtime.jvm import jvm
from airflow_stream_provider.runtime.managed_query import ManagedQuery

# A source's options for the connection to Kafka; the others, such as fetch sizes, are for its consumers.
CONNECTION = ("bootstrap.servers", "client.dns.lookup", "security.", "sasl.", "ssl.")
# Kafka's client times out before our wait does, so no commit is still running when we give up.
CLIENT_SECONDS, GIVE_UP_SECONDS = 10, 15
_PATIENCE = {
    "default.api.timeout.ms": str(CLIENT_SECONDS * 1000),
    "request.timeout.ms": str(CLIENT_SECONDS * 500),
    "reconnect.backoff.max.ms": "10000",
}

log = logging.getLogger(__name__)

ConnectionOptions = tuple[tuple[str, str], ...]
T = TypeVar("T")


class ConsumerGroup:
    """A consumer group without members; its offsets are set through the admin client.

    :param queries: of this driver, as far as the script has built them.
    """

    def __init__(self, name: str, queries: Callable[[], Sequence[ManagedQuery]]) -> None:
        self.name = name
        self._queries = queries
        self._clusters: dict[str, ConnectionOptions | None] = {}
        self._admins: dict[ConnectionOptions, Any] = {}
        self._loader: Any = None
        self._lock = threading.Lock()

    def clusters(self) -> Mapping[str, ConnectionOptions]:
        """Return, by query, the connection options of its sources; they may contain secrets."""
        for query in self._queries():
            if query.label not in self._clusters:
                self._clusters[query.label] = self._cluster(query)
        return {name: cluster for name, cluster in self._clusters.items() if cluster is not None}

    def commit(self, cluster: ConnectionOptions, commits: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Commit (offset, metadata) by (topic, partition).

        :raises StreamError: Kafka does not answer, or refuses; some of them may be committed.
        """
        java = jvm()
        # py4j finds classes through it, and Kafka its plug-ins. This Python thread has a JVM thread of its own.
        java.java.lang.Thread.currentThread().setContextClassLoader(self._loader)
        kafka = java.org.apache.kafka
        try:
            offsets = java.java.util.HashMap()
            for place, (offset, metadata) in commits.items():
                partition = kafka.common.TopicPartition(*place)
                offsets.put(partition, kafka.clients.consumer.OffsetAndMetadata(offset, metadata))
            answer_of(self._admin(cluster).alterConsumerGroupOffsets(self.name, offsets).all())
        except Py4JJavaError as error:
            raise StreamError(
                f"Kafka does not take the offsets for the group {self.name}: {root_cause(error.java_exception)}",
                next_step="Nothing, if Kafka is unavailable: they are sent again. The user needs READ on the "
                "group and its topics, and no consumer may be a member of the group.",
            ) from None  # the JVM's text may quote the options

    def close(self) -> None:
        """Abandon calls that are under way, and disconnect."""
        with self._lock:
            admins, self._admins = self._admins, {}
        for admin in admins.values():
            admin.close(jvm().java.time.Duration.ZERO)

    def _admin(self, cluster: ConnectionOptions) -> Any:
        with self._lock:
            if cluster not in self._admins:
                self._admins[cluster] = open_admin(cluster)
            return self._admins[cluster]

    def _cluster(self, query: ManagedQuery) -> ConnectionOptions | None:
        relations = kafka_relations(query)
        found = connections(relations)
        if len(found) > 1:
            log.warning(
                "%s reads from several Kafka clusters; its offsets are not committed to the group %s.",
                query.label,
                self.name,
            )
        if len(found) != 1:
            return None
        self._loader = relations[0].table().getClass().getClassLoader()
        return found.pop()


def connections(relations: Sequence[Any]) -> set[ConnectionOptions]:
    """Return the connection options of a query's Kafka sources, one for each Kafka; they may contain secrets.

    :param relations: see `describe.kafka_relations`.
    """
    return {connection_options(dict(relation.extraOptions())) for relation in relations}


def open_admin(cluster: ConnectionOptions) -> Any:
    """Return an admin client of the JVM, to be closed. Its classes are found by the thread's context class loader."""
    properties = jvm().java.util.Properties()
    for key, value in (*_PATIENCE.items(), *cluster):
        properties.setProperty(key, value)
    return jvm().org.apache.kafka.clients.admin.AdminClient.create(properties)


def with_admin(relation: Any, ask: Callable[[Any], T]) -> T:
    """Return what a source's Kafka answers through an admin client.

    :param relation: see `describe.kafka_relations`.
    """
    java = jvm()
    # py4j finds classes through it, and Kafka its plug-ins.
    java.java.lang.Thread.currentThread().setContextClassLoader(relation.table().getClass().getClassLoader())
    admin = open_admin(connection_options(dict(relation.extraOptions())))
    try:
        return ask(admin)
    finally:
        admin.close(java.java.time.Duration.ZERO)


def answer_of(future: Any) -> Any:
    """Return what an admin client answers, in time."""
    return future.get(GIVE_UP_SECONDS, jvm().java.util.concurrent.TimeUnit.SECONDS)


def offsets_at(admin: Any, places: Iterable[tuple[str, int]], spec: str) -> dict[tuple[str, int], int]:
    """Return where partitions, by topic and number, begin (`earliest`) or end (`latest`)."""
    kafka, asked = jvm().org.apache.kafka, jvm().java.util.HashMap()
    partitions = {place: kafka.common.TopicPartition(*place) for place in places}
    for partition in partitions.values():
        asked.put(partition, getattr(kafka.clients.admin.OffsetSpec, spec)())
    found = answer_of(admin.listOffsets(asked).all())
    return {place: int(found.get(partition).offset()) for place, partition in partitions.items()}


def connection_options(options: Mapping[str, str]) -> ConnectionOptions:
    """Return what a Kafka source's options say of the connection; it may contain secrets."""
    # Spark's options ignore case; what follows `kafka.` goes to the client unchanged.
    bare = {key.lower()[6:]: value for key, value in options.items() if key.lower().startswith("kafka.")}
    return tuple(sorted((key, value) for key, value in bare.items() if key.startswith(CONNECTION)))


def root_cause(error: Any) -> str:
    """Return the first cause of an exception of the JVM, as class and message."""
    while error.getCause() is not None:
        error = error.getCause()
    return f"{error.getClass().getSimpleName()}: {error.getMessage()}"


class SteppedBack(StreamError):
    """The log of a partition ends before what a query has read of it already."""


_AGAIN = "Nothing was read again, and the stream goes on where it was. Give the command again, with a later time."


def check_still_there(query: ManagedQuery, wanted: Offsets) -> None:
    """Check that Kafka has not deleted these records since somebody looked: Spark would fail at the first one for ever.

    :raises StreamError: it has, or does not say.
    """
    what = f"whether it still has what {query.label} is to read again"
    starts = _ask(query, wanted, "earliest", what, _AGAIN)
    for (topic, partition), start in starts.items():
        if wanted[topic][partition] < start:
            raise StreamError(
                f"Kafka has deleted what {query.label} is to read again: {topic}-{partition} begins at offset {start} "
                f"by now, and it asks for {wanted[topic][partition]}.",
                next_step=_AGAIN,
            )


def put_back(query: ManagedQuery) -> str:
    """Let the planned batch of a query be read that ends before it begins, once Kafka shows the whole logs again.

    See `checkpoint.rewind`. The query must not run meanwhile.

    :return: what was done, and what may be wrong, for people; empty: the batch needs nothing of this.
    :raises SteppedBack: Kafka does not show them yet.
    :raises StreamError: Kafka, or the checkpoint's storage, does not answer.
    """
    found = checkpoints.stepped_back(query.checkpoint)
    if found is None:
        return ""
    ends = _ask(query, found.begins, "latest", f"where what {query.label} reads ends", "It is asked again.")
    for (topic, partition), end in ends.items():
        begin = found.begins[topic][partition]
        if end < begin:
            raise SteppedBack(
                f"The log of {topic}-{partition} ends at offset {end}, and {query.label} has read it up to offset "
                f"{begin}: Kafka has lost records, or a broker is behind.",
                next_step="Look at the topic's leaders and their disks. Once they are lost for good, give the query a "
                "new checkpoint.",
            )
    try:
        found.apply()
    except OSError as error:
        raise CheckpointError(
            f"Batch {found.batch} of {query.label} cannot be corrected: {error.strerror or error}.",
            next_step="Check that the checkpoint's storage is up, not full, and open to the driver's user.",
        ) from error
    now = ", ".join(f"{topic}-{partition} up to {end}" for (topic, partition), end in ends.items())
    return (
        f"Kafka showed an earlier end of what {query.label} reads for a moment ({', '.join(found.ended)}), and shows "
        f"more again ({now}): it goes on where it was. If a broker has lost records, or the topic was made anew, those "
        "written there since, at lower offsets, are not read: look at the brokers' logs."
    )


def _ask(query: ManagedQuery, wanted: Offsets, spec: str, what: str, next_step: str) -> dict[tuple[str, int], int]:
    """Return where these partitions begin (`earliest`) or end (`latest`).

    :param what: Kafka is asked, for the error.
    :raises StreamError: Kafka does not say it.
    """
    relations = kafka_relations(query)
    found = connections(relations)
    if len(found) != 1:
        raise StreamError(
            f"The query {query.label} reads several Kafka clusters, and nobody knows of which one the records are.",
            next_step=next_step,
        )
    places = [(topic, partition) for topic, partitions in wanted.items() for partition in partitions]
    try:
        return with_admin(relations[0], lambda admin: offsets_at(admin, places, spec))
    except Py4JJavaError as error:
        raise StreamError(
            f"Kafka does not say {what}: {root_cause(error.java_exception)}", next_step=next_step
        ) from None  # the JVM's text may quote the options
