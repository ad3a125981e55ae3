"""The facts that the checks examine: topics, brokers, what the stream requires, and its recorded clients. No I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.audit.check import NotRead, NotVerifiable
from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.kafka.cluster_requests import LogFolder, Quorum
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import Incarnation, StreamState

# Kafka writes "unlimited" as -1 or as the largest long.
_FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Settings:
    """The effective settings of a topic or a broker, including defaults.

    :param of: what they belong to, such as ``topic orders``.
    :param values: the settings by name; empty if they could not be read.
    :param problem: why they could not be read, if Kafka gave a reason.
    """

    of: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    problem: str = ""

    def text(self, key: str) -> str:
        """Return a setting as text.

        :raises NotRead: it could not be read, or the brokers do not have it.
        """
        if not self.values:
            reason = self.problem or "Kafka returned none; the user may lack DESCRIBE_CONFIGS on it."
            raise NotRead(f"The settings of {self.of} could not be read: {reason}")
        value = self.values.get(key)
        if value is None:
            raise NotRead(f"{self.of} has no setting {key}; its brokers may be too old.")
        return value

    def number(self, key: str) -> int:
        """Return a setting as a whole number.

        :raises NotRead: see `text`.
        """
        return int(self.text(key))

    def flag(self, key: str) -> bool:
        """Return whether a setting is ``true``.

        :raises NotRead: see `text`.
        """
        return self.text(key) == "true"

    def seconds(self, key: str) -> float:
        """Return a setting in milliseconds as seconds; infinity if it has no limit.

        :raises NotRead: see `text`.
        """
        value = self.number(key)
        return math.inf if value in (-1, _FOREVER) else value / 1000


@dataclass(frozen=True)
class Partition:
    """One partition. Replicas are given as broker ids; a value that could not be read is None.

    :param number: number of the partition.
    :param leader: the leader, -1 if there is none.
    :param replicas: all replicas; the first is the preferred leader.
    :param in_sync: the replicas in sync.
    :param offline: the replicas whose broker is down or whose disk has failed.
    :param lost_leaders: eligible leader replicas: out of sync, but able to lead without loss (KIP-966).
    :param end: end offset of the log.
    :param oldest: timestamp of the oldest record, in seconds since 1970; None also for an empty log.
    :param size: size of the leader's log, in bytes.
    :param held: first offset of a transaction that is open for longer than its producer asked for; None if there is
        none.
    :param unlisted: first offset of an open transaction that no coordinator lists; None if there is none.
    """

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    lost_leaders: tuple[int, ...] | None = None
    end: int | None = None
    oldest: float | None = None
    size: int | None = None
    held: int | None = None
    unlisted: int | None = None


@dataclass(frozen=True)
class Topic:
    """A topic.

    :param name: name of the topic.
    :param partitions: its partitions, by number.
    :param settings: its effective settings.
    :param problem: why the topic could not be read; nothing else about it is known then.
    :param missing: Kafka reports that the topic does not exist.
    """

    name: str
    partitions: tuple[Partition, ...] = ()
    settings: Settings = field(default_factory=lambda: Settings("the topic"))
    problem: str = ""
    missing: bool = False

    @property
    def title(self) -> str:
        """Its name in a finding."""
        return f"topic {self.name}"

    @property
    def copies(self) -> int:
        """The smallest number of replicas of its partitions; 0 without partitions."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True)
class BrokerFacts:
    """A registered broker.

    :param id: broker id.
    :param rack: its rack or zone, if broker.rack is set.
    :param fenced: it is registered but does not serve.
    :param settings: its effective settings.
    :param folders: its log folders.
    :param folders_problem: why they could not be read; empty if they could.
    """

    id: int
    rack: str | None
    fenced: bool
    settings: Settings
    folders: tuple[LogFolder, ...] = ()
    folders_problem: str = ""

    @property
    def title(self) -> str:
        """Its name in a finding."""
        return f"broker {self.id}"


@dataclass(frozen=True)
class Facts:
    """Everything that an audit read from Kafka at one time.

    :param at: when it was read, in seconds since 1970.
    :param server: arguments with which Kafka's command line tools reach the cluster.
    :param topics: the audited topics.
    :param internal: `__consumer_offsets` and `__transaction_state`.
    :param brokers: all registered brokers.
    :param fenced_listed: whether the brokers list fenced ones; those before Kafka 4.0 do not.
    :param quorum: the controllers; None if they could not be read, or if the brokers tell of none.
    :param problems: why `quorum`, or a field of the partitions, could not be read, by name of the field.
    """

    at: float
    server: tuple[str, ...]
    topics: tuple[Topic, ...]
    internal: tuple[Topic, ...]
    brokers: tuple[BrokerFacts, ...]
    fenced_listed: bool = True
    quorum: Quorum | None = None
    problems: Mapping[str, str] = field(default_factory=dict)

    title = "the cluster"

    @property
    def live(self) -> tuple[BrokerFacts, ...]:
        """The brokers that are not fenced."""
        return tuple(broker for broker in self.brokers if not broker.fenced)

    def require_field(self, name: str) -> None:
        """Check that a field was read.

        :raises NotRead: it could not.
        """
        if name in self.problems:
            raise NotRead(self.problems[name])


@dataclass(frozen=True)
class Requirements:
    """The stream's needs of Kafka, and the settings of its clients, which brokers do not know.

    None always means that a value was not declared.

    :param outage: the longest planned outage of the stream, in seconds.
    :param catch_up: time that the stream then needs to read what has piled up, in seconds. Default: as long as the
        outage, which is right for a stream twice as fast as its producers.
    :param compacted: the topics are meant to keep only the last record of each key; default False.
    :param producer: settings of the producers of the topics, by Kafka's names, such as ``{"acks": "all"}``.
    :param source: options of Spark's Kafka source, such as ``{"failOnDataLoss": "true"}``.
    :param sink: options of Spark's Kafka sink.
    :param offsets_group: the consumer group that the stream commits to for monitoring; empty if it commits to none.
    """

    outage: float | None = None
    catch_up: float | None = None
    compacted: bool = False
    producer: Mapping[str, object] | None = None
    source: Mapping[str, object] | None = None
    sink: Mapping[str, object] | None = None
    offsets_group: str | None = None

    title = "the stream's clients"

    @property
    def retention_needed(self) -> float:
        """How long a record must stay readable, in seconds: the longest outage and the time to catch up.

        :raises NotVerifiable: the outage was not declared.
        """
        if self.outage is None:
            raise NotVerifiable("The longest planned outage of the stream was not declared (outage=, in seconds).")
        return self.outage + (self.outage if self.catch_up is None else self.catch_up)

    def option(self, client: str, key: str, default: str | None = None) -> str:
        """Return a declared setting of a client.

        :param client: ``producer``, ``source`` or ``sink``.
        :param default: the value if the client was declared without this setting. None: the default depends on the
            client.
        :raises NotVerifiable: the client was not declared, or the setting was not and has no default.
        """
        declared = getattr(self, client)
        if declared is None:
            raise NotVerifiable(f"No settings of the {client} were declared, and brokers do not know them.")
        # Names of Spark's options are not case-sensitive, and Kafka's names are lower case.
        found = {name.lower(): str(value) for name, value in declared.items()}
        value = found.get(key.lower(), default)
        if value is None:
            raise NotVerifiable(f"{key} was not declared for the {client}, and its default depends on the client.")
        return value.lower() if value.lower() in ("true", "false") else value

    def number(self, client: str, key: str, default: str | None = None) -> int:
        """Return a declared setting as a whole number; see `option`.

        :raises NotVerifiable: also if the declared value is not a whole number.
        """
        value = self.option(client, key, default)
        try:
            return int(value)
        except ValueError:
            raise NotVerifiable(
                f"{key} of the {client} was declared as {value}, which is not a whole number."
            ) from None


def partition_numbers(partitions: Iterable[Partition]) -> str:
    """Return the first ten partitions' numbers for a sentence, such as ``partitions 0, 1``."""
    found = [str(partition.number) for partition in partitions]
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return f"partition{'s' if len(found) > 1 else ''} {', '.join(found[:10])}{more}"


def format_duration(seconds: float) -> str:
    """Return a duration for a sentence, in days, hours or seconds.

    >>> format_duration(7 * 86400), format_duration(5400), format_duration(90), format_duration(float("inf"))
    ('7 d', '1.5 h', '90 s', 'an unlimited time')
    """
    if math.isinf(seconds):
        return "an unlimited time"
    for unit, length in (("d", 86400), ("h", 3600)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


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
