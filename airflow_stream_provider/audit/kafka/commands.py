"""Kafka's side of its checks: what they look at, and the commands that fix what they find.

The names in braces in a template are replaced by values quoted for a POSIX shell. `{server}` stands for the arguments
with which Kafka's tools reach the cluster, `{cluster}` for the same arguments as `kafka-cluster.sh` names them.
`{pattern}` is the topic as a regular expression, which is what `kafka-topics.sh --topic` expects.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from airflow_stream_provider.audit.check import Broken, broken_if
from airflow_stream_provider.audit.kafka.facts import BrokerFacts, Facts, Requirements, Topic
from airflow_stream_provider.kafka.settings import with_ports

# Replicas that every partition should have.
COPIES = 3

# Kafka's tool writes plans that spread replicas over racks; it never adds a replica. A plan moves whole partitions over
# the network, so a person reads it and chooses the rate.
REASSIGN = (
    "printf %s {topics} | kafka-reassign-partitions.sh {server} --topics-to-move-json-file /dev/stdin "
    "--broker-list {brokers} --generate  # then change the plan to {copies} replicas, and --execute it with --throttle"
)


def topic_setting(key: str, value: str = "{value}") -> str:
    """Return the template of a command that sets a topic's setting.

    :param value: the value, or by default ``{value}``, to be filled in later.
    """
    return (
        f"kafka-configs.sh {{server}} --alter --entity-type topics --entity-name {{topic}} --add-config {key}={value}"
    )


def broker_setting(*settings: str) -> str:
    """Return the template for settings that brokers read only when they start, such as ``a=1``.

    No command of Kafka changes them, and a managed cluster has no server.properties to write to.
    """
    where = "in every broker's server.properties, or in the configuration of the managed cluster; then restart"
    return f"{' '.join(settings)}  # {where} one by one"


def tool_arguments(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments with which Kafka's command line tools reach a connection's cluster.

    For a cluster with TLS or SASL they name a file ``client.properties``, which the person who runs the command must
    have. Reports never contain secrets.

    :param extra: the extra of the Airflow connection.
    """
    server = ("--bootstrap-server", ",".join(with_ports(str(extra.get("bootstrap.servers", "")))))
    plain = str(extra.get("security.protocol", "PLAINTEXT")).upper() == "PLAINTEXT"
    return server if plain else (*server, "--command-config", "client.properties")


def fill_template(template: str, server: Sequence[str], values: Mapping[str, object]) -> str:
    """Return a template's command with its values filled in and quoted for the shell.

    :param server: from `tool_arguments`.
    """
    known = {name: shlex.quote(str(value)) for name, value in values.items()}
    if "topic" in values:
        known.setdefault("pattern", shlex.quote(str(values["topic"]).replace(".", r"\.")))
    # Only kafka-cluster.sh has another name for the option with the client's settings.
    cluster = ["--config" if each == "--command-config" else each for each in server]
    return template.format_map({**known, "server": shlex.join(server), "cluster": shlex.join(cluster)})


def reassigned(topic: Topic, brokers: Iterable[BrokerFacts], copies: int = COPIES) -> dict[str, object]:
    """Return the values for `REASSIGN`.

    :param copies: number of replicas that each partition is to have; default `COPIES`.
    """
    topics = json.dumps({"topics": [{"topic": topic.name}], "version": 1}, separators=(",", ":"))
    return {"topics": topics, "brokers": ",".join(str(broker.id) for broker in brokers), "copies": copies}


def fix_for(facts: Facts) -> Callable[[str, Any, Mapping[str, object]], str]:
    """Return what makes a command of a template, a subject and values for the names in the template."""

    def fix(template: str, subject: Any, values: Mapping[str, object]) -> str:
        return fill_template(template, facts.server, {**_names(subject), **values})

    return fix


def _names(subject: Any) -> dict[str, object]:
    if isinstance(subject, Topic):
        return {"topic": subject.name}
    return {"broker": subject.id} if isinstance(subject, BrokerFacts) else {}


Scope = Callable[[Facts, Requirements], Iterable[Any]]
Look = Callable[[Any, Facts, Requirements], Broken | None]


def flag_off(key: str) -> Look:
    """Return a look at a setting of a topic or a broker that must not be ``true``."""
    return lambda subject, *_: broken_if(subject.settings.flag(key), f"{key} is true")


def _known(topics: Iterable[Topic]) -> Iterable[Topic]:
    # Topics that could not be read are reported once, by `topic-readable`.
    return (topic for topic in topics if not topic.problem)


TOPICS: Scope = lambda facts, _: _known(facts.topics)  # noqa: E731 - a value of the column
"""The audited topics."""
ALL_TOPICS: Scope = lambda facts, _: _known((*facts.topics, *facts.internal))  # noqa: E731
"""The audited topics, and `__consumer_offsets` and `__transaction_state`, on which all streams depend."""
NAMED_TOPICS: Scope = lambda facts, _: (*facts.topics, *(t for t in facts.internal if not t.missing))  # noqa: E731
"""`ALL_TOPICS` and the topics that cannot be read. An internal topic is left out until Kafka has created it."""
BROKERS: Scope = lambda facts, _: facts.live  # noqa: E731
CLUSTER: Scope = lambda facts, _: (facts,)  # noqa: E731
CLIENTS: Scope = lambda _, requirements: (requirements,)  # noqa: E731
