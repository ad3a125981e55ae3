"""A query's Kafka source in the `standby` record, so that its lag is measured on the right Kafka. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

# An address as Kafka's own client reads it (Utils.getHost). It has no place for a password.
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})")
_READ = ("subscribe", "subscribePattern", "assign")
# No ids are noted of a source that reads more topics: a `standby` record has to be far smaller than `record.MAX_BYTES`.
MAX_TOPIC_IDS = 200


class KafkaIds(NamedTuple):
    """Kafka's own ids: that of the cluster, empty if it has none, and those of topics by name."""

    cluster: str = ""
    topics: Mapping[str, str] = {}


@dataclass(frozen=True)
class KafkaSource:
    """One Kafka source of a query.

    :param option: which of Spark's options names the topics: ``subscribe``, ``subscribePattern`` or ``assign``.
    :param topics: the value of that option.
    :param servers: the bootstrap servers, see `addresses`.
    :param read_committed: whether it reads committed records only (Kafka's isolation level).
    :param cluster: Kafka's id of the cluster that the driver has asked; empty: it is not known.
    :param topic_ids: by topic, Kafka's id of it, as far as it is known. One that is made anew has another one.
    """

    option: str = "subscribe"
    topics: str = ""
    servers: tuple[str, ...] = ()
    read_committed: bool = False
    cluster: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that its option names; one with a pattern names none."""
        if self.option == "subscribePattern":
            return ()
        if self.option == "assign":
            try:
                return tuple(json.loads(self.topics).keys())
            except (ValueError, AttributeError, RecursionError):
                return ()
        return tuple(name.strip() for name in self.topics.split(",") if name.strip())

    def may_read(self, topic: str) -> bool:
        """Return whether it may read a topic; one with a pattern may read any.

        A driver's pattern is not matched here: it may take hours, in which no other thread of the process runs.
        """
        return self.option == "subscribePattern" or topic in self.names

    def to_json(self) -> dict[str, Any]:
        """Return the source as a JSON object."""
        return asdict(self)


def kafka_source(options: Mapping[str, str]) -> KafkaSource:
    """Return the source of these options, as Spark has them: with names in any case."""
    given = {name.lower(): value for name, value in options.items()}
    option = next((name for name in _READ if name.lower() in given), _READ[0])
    return KafkaSource(
        option,
        given.get(option.lower(), ""),
        addresses(given.get("kafka.bootstrap.servers", "")),
        given.get("kafka.isolation.level") == "read_committed",
    )


def kafka_sources(query: Mapping[str, Any]) -> tuple[KafkaSource, ...]:
    """Return the sources of a query in a `standby` record; none where its driver did not say them, or not so."""
    found = query.get("kafka_sources")
    return tuple(_source(each) for each in found if isinstance(each, Mapping)) if isinstance(found, list) else ()


def _source(said: Mapping[str, Any]) -> KafkaSource:
    servers, ids = said.get("servers"), said.get("topic_ids")
    return KafkaSource(
        str(said.get("option", "")),
        str(said.get("topics", "")),
        addresses(",".join(map(str, servers))) if isinstance(servers, (list, tuple)) else (),
        said.get("read_committed") is True,
        str(said.get("cluster") or ""),
        {str(topic): str(each) for topic, each in ids.items()} if isinstance(ids, Mapping) else {},
    )


def addresses(servers: str) -> tuple[str, ...]:
    """Return the addresses in a list of bootstrap servers as ``host:port``, in order; what is none is left out."""
    found = (_ADDRESS.fullmatch(server.strip()) for server in servers.split(","))
    return tuple(sorted({f"{address[1].lower()}:{int(address[2])}" for address in found if address and address[1]}))
