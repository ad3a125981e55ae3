"""Whether Kafka still has what a query is to read again, through the client that Spark's connector has loaded."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.rewind import Offsets
from airflow_stream_provider.runtime.consumer_group import (
    GIVE_UP_SECONDS,
    ConnectionOptions,
    connections,
    open_admin,
    root_cause,
)
from airflow_stream_provider.runtime.describe import kafka_relations
from airflow_stream_provider.runtime.jvm import jvm
from airflow_stream_provider.runtime.managed_query import ManagedQuery

_AGAIN = "Nothing was read again, and the stream goes on where it was. Give the command again, with a later time."


def check_still_there(query: ManagedQuery, wanted: Offsets) -> None:
    """Check that Kafka has not deleted these records since somebody looked: Spark would fail at the first one for ever.

    :raises StreamError: it has, or does not say.
    """
    relations = kafka_relations(query)
    found = connections(relations)
    if len(found) != 1:
        raise StreamError(
            f"The query {query.label} reads several Kafka clusters, and nobody knows of which one the records are.",
            next_step=_AGAIN,
        )
    java = jvm()
    # py4j finds classes through it, and Kafka its plug-ins.
    java.java.lang.Thread.currentThread().setContextClassLoader(relations[0].table().getClass().getClassLoader())
    try:
        starts = _ask(java, found.pop(), wanted)
    except Py4JJavaError as error:
        raise StreamError(
            f"Kafka does not say whether it still has what {query.label} is to read again: "
            f"{root_cause(error.java_exception)}",
            next_step=_AGAIN,
        ) from None  # the JVM's text may quote the options
    for (topic, partition), start in starts.items():
        if wanted[topic][partition] < start:
            raise StreamError(
                f"Kafka has deleted what {query.label} is to read again: {topic}-{partition} begins at offset {start} "
                f"by now, and it asks for {wanted[topic][partition]}.",
                next_step=_AGAIN,
            )


def _ask(java: Any, cluster: ConnectionOptions, wanted: Offsets) -> dict[tuple[str, int], int]:
    kafka = java.org.apache.kafka
    earliest, places = java.java.util.HashMap(), {}
    for topic, partitions in wanted.items():
        for partition in partitions:
            place = places[topic, partition] = kafka.common.TopicPartition(topic, partition)
            earliest.put(place, kafka.clients.admin.OffsetSpec.earliest())
    admin = open_admin(cluster)
    try:
        found = admin.listOffsets(earliest).all().get(GIVE_UP_SECONDS, java.java.util.concurrent.TimeUnit.SECONDS)
        return {key: int(found.get(place).offset()) for key, place in places.items()}
    finally:
        admin.close(java.java.time.Duration.ZERO)
