"""The consumer group, through the Kafka client that Spark's connector has loaded into the driver's JVM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from airflow_stream_provider.lifecycle.errors import StreamError
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


class ConsumerGroup:
    """A consumer group without members; its offsets are set through the admin client.

    :param queries: of this driver, as far as the script has built them.
    """

    def __init__(self, name: str, queries: Callable[[], Sequence[ManagedQuery]]) -> None:
        self.name = name
        self._queries = queries
        self._clusters: dict[str, ConnectionOptions | None] = {}
        self._admins: dict[ConnectionOptions, Any] = {}
        self._places: dict[tuple[str, int], Any] = {}
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
                if place not in self._places:
                    self._places[place] = kafka.common.TopicPartition(*place)
                offsets.put(self._places[place], kafka.clients.consumer.OffsetAndMetadata(offset, metadata))
            asked = self._admin(cluster).alterConsumerGroupOffsets(self.name, offsets)
            asked.all().get(GIVE_UP_SECONDS, java.java.util.concurrent.TimeUnit.SECONDS)
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
