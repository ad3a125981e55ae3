"""What is known about topics, brokers and the stream when an audit judges them: values, no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Kafka writes "for ever" as -1 or as the largest long.
_FOREVER = 2**63 - 1


class NotRead(Exception):
    """Something that a check needs could not be read from Kafka; the message is the sentence for the report."""


class NotVerifiable(Exception):
    """Something that a check needs is not known to any broker and was not declared; the message says what."""


@dataclass(frozen=True)
class Settings:
    """The effective settings of a topic or a broker. None known at all means that they could not be read."""

    of: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    problem: str = ""

    def text(self, key: str) -> str:
        """Return a setting; raise NotRead where it is not known."""
        if not self.values:
            reason = self.problem or "Kafka answered with none; DESCRIBE_CONFIGS on it may be missing."
            raise NotRead(f"The settings of {self.of} could not be read: {reason}")
        value = self.values.get(key)
        if value is None:
            raise NotRead(f"{self.of} does not say its {key}; its brokers may be too old to have it.")
        return value

    def number(self, key: str) -> int:
        """Return a setting as a number; raise NotRead where it is not known."""
        return int(self.text(key))

    def flag(self, key: str) -> bool:
        """Whether a setting is true; raise NotRead where it is not known."""
        return self.text(key) == "true"

    def seconds(self, key: str) -> float:
        """Return a setting in ms as seconds, infinity for one without limit; raise NotRead where it is not known."""
        value = self.number(key)
        return math.inf if value in (-1, _FOREVER) else value / 1000


@dataclass(frozen=True)
class Partition:
    """One partition as the brokers describe it, by broker ids; `leader` is -1 when there is none.

    `lost_leaders` could lead without loss though they are out of sync (KIP-966); None: these brokers cannot say.
    `start` and `end` are offsets; `oldest` is the time of the oldest record in s since 1970, None in an empty log.
    `size` is the leader's log in bytes. `held` is the offset of a transaction open for longer than brokers allow.
    What could not be read is None.
    """

    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    lost_leaders: tuple[int, ...] | None = None
    start: int | None = None
    end: int | None = None
    oldest: float | None = None
    size: int | None = None
    held: int | None = None


@dataclass(frozen=True)
class Topic:
    """A topic; with a `problem` nothing else about it is known. `missing`: Kafka says that there is no such topic."""

    name: str
    partitions: tuple[Partition, ...] = ()
    settings: Settings = field(default_factory=lambda: Settings("the topic"))
    problem: str = ""
    missing: bool = False

    @property
    def title(self) -> str:
        """What a finding calls it."""
        return f"topic {self.name}"

    @property
    def copies(self) -> int:
        """The replicas of the partition that has the fewest."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True)
class BrokerFacts:
    """A registered broker; `fenced`: it does not serve now."""

    id: int
    rack: str | None
    fenced: bool
    settings: Settings

    @property
    def title(self) -> str:
        """What a finding calls it."""
        return f"broker {self.id}"


@dataclass(frozen=True)
class Facts:
    """All that was gathered at one time (`at`, s since 1970); `server` is what every command is told to talk to."""

    at: float
    server: tuple[str, ...]
    topics: tuple[Topic, ...]
    internal: tuple[Topic, ...]
    brokers: tuple[BrokerFacts, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why what is None in the partitions could not be read, by the name of their field."""

    title = "the cluster"

    @property
    def live(self) -> tuple[BrokerFacts, ...]:
        """The brokers that serve."""
        return tuple(broker for broker in self.brokers if not broker.fenced)

    def require_field(self, name: str) -> None:
        """Raise NotRead when this field of the partitions could not be read."""
        if name in self.problems:
            raise NotRead(self.problems[name])


@dataclass(frozen=True)
class Requirements:
    """What the stream needs of Kafka, and settings of its clients, which no broker knows. None: not declared.

    :param outage: the longest planned outage of the stream, in seconds.
    :param catch_up: seconds in which it then reads what has waited; default: as long as the outage, which is what a
        stream twice as fast as its producers takes.
    :param executor_cores: of all executors together.
    :param compacted: the topics are meant to keep the last record of each key only.
    :param producer: settings of those who write the topics, by Kafka's names, such as ``{"acks": "all"}``.
    :param source: options of Spark's Kafka source, such as ``{"maxOffsetsPerTrigger": "100000"}``.
    :param sink: options of Spark's Kafka sink.
    """

    outage: float | None = None
    catch_up: float | None = None
    executor_cores: int | None = None
    compacted: bool = False
    producer: Mapping[str, object] | None = None
    source: Mapping[str, object] | None = None
    sink: Mapping[str, object] | None = None

    title = "the stream's clients"

    @property
    def retention_needed(self) -> float:
        """For how many seconds a record must stay readable; raise NotVerifiable when it was not declared."""
        if self.outage is None:
            raise NotVerifiable("The longest planned outage of the stream was not declared (outage=, in seconds).")
        return self.outage + (self.outage if self.catch_up is None else self.catch_up)

    def option(self, client: str, key: str, default: str | None = None) -> str:
        """Return a declared setting of the `producer`, `source` or `sink`; raise NotVerifiable for an undeclared one.

        :param default: what holds when the client was declared without this setting; None: that depends on the client.
        """
        declared = getattr(self, client)
        if declared is None:
            raise NotVerifiable(f"No settings of the {client} were declared, and no broker knows them.")
        # Spark's options are not case-sensitive, and Kafka's names are lower case.
        found = {name.lower(): str(value) for name, value in declared.items()}
        value = found.get(key.lower(), default)
        if value is None:
            raise NotVerifiable(f"{key} is not among the declared settings of the {client}; its default differs.")
        return value.lower() if value.lower() in ("true", "false") else value

    def number(self, client: str, key: str, default: str | None = None) -> int:
        """Return a declared setting as a number; raise NotVerifiable also for one that is none (see `option`)."""
        value = self.option(client, key, default)
        try:
            return int(value)
        except ValueError:
            raise NotVerifiable(f"{key} of the {client} was declared as {value}, which is no whole number.") from None


def partition_numbers(partitions: Iterable[Partition]) -> str:
    """Return the partitions' numbers for a sentence, the first ten of them."""
    found = [str(partition.number) for partition in partitions]
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return f"partition{'s' if len(found) > 1 else ''} {', '.join(found[:10])}{more}"


def format_duration(seconds: float) -> str:
    """Return a duration for a sentence.

    >>> format_duration(7 * 86400), format_duration(5400), format_duration(90), format_duration(float("inf"))
    ('7 d', '1.5 h', '90 s', 'for ever')
    """
    if math.isinf(seconds):
        return "for ever"
    for unit, length in (("d", 86400), ("h", 3600)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
