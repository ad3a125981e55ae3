"""Topics of Kafka as a sink has them: which rows fit one, the topic of the ledger, and who lives and writes there."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.types import StructType

from airflow_stream_provider.control.bounded import OWN_THREADS
from airflow_stream_provider.sinks.ledger import BadRows, SinkRefused

# The compacted topic with the last entry of each query, in its first partition.
LEDGER = "stream_ledger"
# A claim reads all of it: what is older than its last segments is compacted.
_SEGMENT_BYTES = 16 << 20
# Columns and their types, as Spark's own Kafka sink has them. The topic is the sink's table.
_COLUMNS = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
# A driver that does not say for so long that it lives has ended, for plain jobs. In it a member connects anew, and asks
# again where a broker is silent.
_SESSION_SECONDS = 20.0
MEMBER = {
    "session_timeout_ms": int(_SESSION_SECONDS * 1000),
    "request_timeout_ms": 8_000,
    "reconnect_backoff_max_ms": 2_000,
    "max_poll_interval_ms": 60_000,
}
# So often a member looks whether it has to join again; a group without members in so many looks is empty.
SIGN_SECONDS = 1.0
LOOKS = 3
_JOIN_SECONDS = 60.0
_LEAVE_SECONDS = 10.0
# A producer sends no larger requests, and counts so many bytes beside those of key, value and headers.
_LARGEST = 1 << 20
_OVERHEAD = 128


class Record(NamedTuple):
    """A record, as a batch has it; None: the column is missing or null."""

    key: Any = None
    value: Any = None
    headers: Any = None
    partition: int | None = None


def check_record_columns(schema: StructType) -> None:
    """Check that a batch has the columns of a record.

    :raises BadRows: it has others.
    """
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    wrong = [f"it has a column {name}" for name in given if name not in _COLUMNS]
    wrong += [f"{name} is {given[name]}" for name in given if given[name] not in _COLUMNS.get(name, (given[name],))]
    if "value" not in given:
        wrong.append("it has no column value")
    if wrong:
        raise BadRows(
            f"The batch is not one of records: {'; '.join(wrong)}.",
            next_step="Select `value`, and if wanted `key`, as string or binary, `headers` as Spark's Kafka source has "
            "them, and `partition` as int. For instance: select(to_json(struct('*')).alias('value')).",
        )


@dataclass(frozen=True)
class Topic:
    """A topic, as its brokers describe it.

    :param name: its name.
    :param partitions: their number.
    :param compacted: whether each record needs a key.
    :param largest: bytes of the largest record that it takes.
    """

    name: str
    partitions: int
    compacted: bool
    largest: int

    def check(self, records: Iterable[Record]) -> None:
        """Check that it takes these records.

        :raises BadRows: it does not.
        """
        for record in records:
            wrong = self._wrong(record)
            if wrong:
                raise BadRows(
                    f"A row for the topic {self.name} {wrong}.",
                    next_step="Correct or leave out such rows in the script, or change the topic.",
                    table=self.name,
                )

    def _wrong(self, record: Record) -> str:
        headers = record.headers or ()
        if record.key is None and self.compacted:
            return "has no key, and the topic is compacted"
        if record.key is None and record.value is None:
            return "has neither key nor value"
        if record.partition is not None and not 0 <= record.partition < self.partitions:
            return f"is for partition {record.partition}, and the topic has {self.partitions}"
        if any(name is None or value is None for name, value in headers):
            return "has a header without a name or a value"
        size = len(record.key or b"") + len(record.value or b"") + _OVERHEAD
        size += sum(len(name.encode()) + len(value) for name, value in headers)
        return f"has about {size} bytes, and it takes {self.largest}" if size > self.largest else ""


def topic_of(admin: Any, name: str) -> Topic:
    """Return a topic.

    :raises BadRows: there is none.
    """
    partitions = partitions_of(admin, name)
    if not partitions:
        raise BadRows(
            f"There is no topic {name}, or this user may not see it.",
            next_step="Create it, with the partitions and replicas that it needs.",
            table=name,
        )
    settings = _settings_of(admin, name)
    compacted = "compact" in settings.get("cleanup.policy", "")
    return Topic(name, partitions, compacted, min(_LARGEST, int(settings.get("max.message.bytes", _LARGEST))))


def check_ledger(admin: Any) -> None:
    """Check the topic of the ledger, which is created where it is missing.

    :raises SinkRefused: Kafka would forget its records.
    """
    if not partitions_of(admin, LEDGER):
        _make_ledger(admin)
    if _settings_of(admin, LEDGER).get("cleanup.policy") != "compact":
        raise SinkRefused(
            f"The topic {LEDGER} is not compacted, or this user may not see its settings: Kafka would forget what the "
            "sink holds.",
            next_step="Set its cleanup.policy to compact, and allow this user to describe its settings.",
        )


def _make_ledger(admin: Any) -> None:
    from kafka.errors import TopicAlreadyExistsError

    copies = min(3, len(admin.describe_cluster()["brokers"]))
    settings = {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)}
    settings["min.insync.replicas"] = str(max(1, copies - 1))
    topic = {"num_partitions": 1, "replication_factor": copies, "configs": settings}
    with contextlib.suppress(TopicAlreadyExistsError):
        admin.create_topics({LEDGER: topic}, wait_for_metadata=True)


def partitions_of(admin: Any, topic: str) -> int:
    """Return how many partitions a topic has; 0: there is none."""
    return len(admin.describe_topics([topic])[0]["partitions"])


def _settings_of(admin: Any, topic: str) -> dict[str, str]:
    """Return settings of a topic; empty: this user may not see them."""
    from kafka.admin import ConfigResource, ConfigResourceType

    asked = ConfigResource(ConfigResourceType.TOPIC, topic, ["cleanup.policy", "max.message.bytes"])
    found = admin.describe_configs([asked], config_filter="all").get("topic", {}).get(topic, {})
    return {name: each["value"] for name, each in found.items()}


class Presence:
    """A member of a group that reads nothing, in a thread of its own, so that others see that this driver lives.

    A batch may come in hours. Where nothing asks kafka-python to join again it is no member any more; it may also wait
    for ever for a group that has taken it in: then it is made anew.

    :param make: makes a consumer.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.error: Exception | None = None
        self._make = make
        self._joined, self._known, self._over = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._stay, name=f"{OWN_THREADS}presence", daemon=True)
        self._thread.start()

    def joins(self) -> bool:
        """Wait until it is a member; return whether it is. False: `error` says why, where that is known."""
        self._known.wait(_JOIN_SECONDS)
        return self._joined.is_set()

    def end(self) -> None:
        """Leave the group."""
        self._over.set()
        self._thread.join(_LEAVE_SECONDS)

    def _stay(self) -> None:
        while not self._over.is_set():
            consumer = None
            try:
                consumer = self._make()
                self._poll(consumer)
            except Exception as error:  # noqa: BLE001 - no batch depends on it; before the claim it is raised there
                self.error = error
                if not getattr(error, "retriable", True):
                    self._known.set()
                self._over.wait(SIGN_SECONDS)
            finally:
                if consumer is not None:
                    with contextlib.suppress(Exception):
                        consumer.close(autocommit=False)

    def _poll(self, consumer: Any) -> None:
        """Be a member until the end, or until it has been none for a session."""
        consumer.partitions_for_topic(LEDGER)  # known before: else it joins a second time
        consumer.subscribe([LEDGER])
        last = time.monotonic()
        while not self._over.is_set() and time.monotonic() < last + _SESSION_SECONDS:
            consumer.poll(timeout_ms=200)
            if consumer.assignment():
                consumer.pause(*consumer.assignment())
                last = time.monotonic()
                self._joined.set()
                self._known.set()
            self._over.wait(SIGN_SECONDS if self._known.is_set() else 0.1)


def members_of(admin: Any, group: str) -> tuple[list[str], str]:
    """Return the hosts of a group's members; and instead, as a text, why the brokers do not say."""
    found = admin.describe_groups([group])[group]
    error = found["error"] or ""
    hosts = [str(each["client_host"]).lstrip("/") for each in found["members"]]
    return hosts, "" if "GroupIdNotFoundError" in error else error
