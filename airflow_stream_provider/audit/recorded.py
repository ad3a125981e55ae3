"""The Kafka clients in a stream's own record, so that they are not declared a second time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import Incarnation, StreamState

# The values with which no record is lost. Where two queries differ, the other value counts.
_SOUND = {"failOnDataLoss": ("true",), "kafka.acks": ("all", "-1"), "kafka.enable.idempotence": ("true",)}


@dataclass(frozen=True)
class RecordedClients:
    """The Kafka clients of a stream's queries.

    :param topics: the topics that they read.
    :param source: options of their Kafka sources; None if the driver did not say, because it is older.
    :param sink: options of their Kafka sinks; None if the driver did not say, or if user code writes.
    """

    topics: tuple[str, ...]
    source: Mapping[str, str] | None
    sink: Mapping[str, str] | None


def recorded_clients(stream: str, state: StreamState, heartbeats: Mapping[str, Heartbeat]) -> RecordedClients:
    """Return the Kafka clients of the driver that holds the stream, held it last, or stands by.

    The topics are those of its `standby` record, and those in which it has committed offsets: a pattern names none.

    :raises SpecError: no driver has announced itself, or none of its queries is known to read a topic.
    """
    driver = state.last_driver or _newest(state)
    if driver is None:
        raise SpecError(
            f"No driver of {stream} has announced itself, so its topics are not known.",
            next_step="Audit after the first release, or give conn_id= and topics=.",
            stream=stream,
        )
    beat = heartbeats.get(driver.id, Heartbeat())
    topics = {topic for query in driver.queries for source in query.get("sources", ()) for topic in _topics(source)}
    topics.update(topic for query in beat.queries for source in query.committed for topic in _committed(source))
    if not topics:
        raise SpecError(
            f"{driver.id} has named no topic of {stream}, and has committed no batch yet.",
            next_step="Audit after its first batch, or give conn_id= and topics=.",
            stream=stream,
        )
    return RecordedClients(tuple(sorted(topics)), _source(driver), _sink(driver))


def _newest(state: StreamState) -> Incarnation | None:
    return next((each for each in reversed(list(state.incarnations.values())) if each.queries), None)


def _topics(source: str) -> Iterable[str]:
    """Return the topics that a source names, such as ``kafka:subscribe=orders,payments``."""
    kind, _, options = source.partition(":")
    option, _, value = options.partition("=")
    if kind != "kafka" or not value:
        return ()
    if option == "subscribe":
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if option != "assign":
        return ()
    try:
        return tuple(json.loads(value))
    except (ValueError, TypeError):
        return ()


def _committed(source: Any) -> Iterable[str]:
    return kafka_offsets(json.dumps(source)) or ()


def _source(driver: Incarnation) -> Mapping[str, str] | None:
    reading = [q for q in driver.queries if any(source.startswith("kafka:") for source in q.get("sources", ()))]
    said: list[Mapping[str, str] | None] = []
    for query in reading:
        said += query.get("source_options", [None])
    return _together(said)


def _sink(driver: Incarnation) -> Mapping[str, str] | None:
    # User code may write anywhere, with options that no plan shows.
    writing = [query for query in driver.queries if query.get("sink") in ("kafka", "foreachBatch", "foreach", None)]
    return _together([query.get("sink_options") if query.get("sink") == "kafka" else None for query in writing])


def _together(said: Sequence[Mapping[str, str] | None]) -> Mapping[str, str] | None:
    """Return the options of several clients as those of one: of different values the one that loses records."""
    found: dict[str, str] = {}
    for each in said:
        for name, value in (each or {}).items():
            if name not in found or _is_sound(name, found[name]):
                found[name] = value
    if None in said and all(_is_sound(name, value) for name, value in found.items()):
        return None
    return found


def _is_sound(name: str, value: str) -> bool:
    return value.lower() in _SOUND.get(name, ())
