"""Where Kafka's logs begin and end for a query now, through the client that Spark's connector has loaded."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
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

    See `checkpoint.step_back`. The query must not run meanwhile.

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
    java = jvm()
    # py4j finds classes through it, and Kafka its plug-ins.
    java.java.lang.Thread.currentThread().setContextClassLoader(relations[0].table().getClass().getClassLoader())
    try:
        return _offsets(java, found.pop(), wanted, spec)
    except Py4JJavaError as error:
        raise StreamError(
            f"Kafka does not say {what}: {root_cause(error.java_exception)}", next_step=next_step
        ) from None  # the JVM's text may quote the options


def _offsets(java: Any, cluster: ConnectionOptions, wanted: Offsets, spec: str) -> dict[tuple[str, int], int]:
    kafka = java.org.apache.kafka
    asked, places = java.java.util.HashMap(), {}
    for topic, partitions in wanted.items():
        for partition in partitions:
            place = places[topic, partition] = kafka.common.TopicPartition(topic, partition)
            asked.put(place, getattr(kafka.clients.admin.OffsetSpec, spec)())
    admin = open_admin(cluster)
    try:
        found = admin.listOffsets(asked).all().get(GIVE_UP_SECONDS, java.java.util.concurrent.TimeUnit.SECONDS)
        return {key: int(found.get(place).offset()) for key, place in places.items()}
    finally:
        admin.close(java.java.time.Duration.ZERO)
