"""Build the commands that fix what an audit finds: templates, shell quoting, and plans for replicas.

The names in braces in a template are replaced by values quoted for a POSIX shell. `{server}` stands for the arguments
with which Kafka's tools reach the cluster, `{cluster}` for the same arguments as `kafka-cluster.sh` names them.
`{pattern}` is the topic as a regular expression, which is what `kafka-topics.sh --topic` expects.
"""

from __future__ import annotations

import json
import shlex
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_stream_provider.audit.facts import BrokerFacts, Topic

# Replicas that every partition should have.
COPIES = 3

REASSIGN = "printf %s {plan} | kafka-reassign-partitions.sh {server} --reassignment-json-file /dev/stdin --execute"


def topic_setting(key: str, value: str = "{value}") -> str:
    """Return the template of a command that sets a topic's setting.

    :param value: the value, or by default ``{value}``, to be filled in later.
    """
    return (
        f"kafka-configs.sh {{server}} --alter --entity-type topics --entity-name {{topic}} --add-config {key}={value}"
    )


def broker_file(key: str, value: str = "{value}") -> str:
    """Return the template of a command for a setting that brokers read only when they start."""
    return f"echo {key}={value} >> server.properties  # of broker {{broker}}, then restart it"


def tool_arguments(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments with which Kafka's command line tools reach a connection's cluster.

    For a cluster with TLS or SASL they name a file ``client.properties``, which the person who runs the command must
    have. Reports never contain secrets.

    :param extra: the extra of the Airflow connection.
    """
    server = ("--bootstrap-server", str(extra.get("bootstrap.servers", "")))
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


def template_for_docs(template: str) -> str:
    """Return a template for the documentation, with its names in capitals."""
    names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    known = {name: name.upper() for name in names}
    server = "--bootstrap-server HOST:PORT"
    return template.format_map({**known, "pattern": "TOPIC", "server": server, "cluster": server})


def reassignment(topic: Topic, brokers: Iterable[BrokerFacts], copies: int = COPIES) -> str:
    """Return a plan for `kafka-reassign-partitions.sh` that adds replicas and spreads them over racks.

    A replica moves only to a rack that has none yet. The first replica, the preferred leader, never moves.

    :param brokers: all registered brokers; fenced ones get no new replicas.
    :param copies: number of replicas that each partition gets at least; default `COPIES`.
    """
    racks = {broker.id: broker.rack for broker in brokers}
    live = [broker.id for broker in brokers if not broker.fenced]
    load = Counter(replica for partition in topic.partitions for replica in partition.replicas)
    plan = []
    for partition in topic.partitions:
        chosen = list(partition.replicas[:1])
        left = set(live).union(partition.replicas).difference(chosen)
        while left and len(chosen) < max(copies, len(partition.replicas)):
            used = Counter(racks.get(broker) for broker in chosen)

            def cost(
                broker: int, used: Counter[str | None] = used, replicas: Sequence[int] = partition.replicas
            ) -> tuple[int, bool, int, int]:
                return used[racks.get(broker)], broker not in replicas, load[broker], broker

            best = min(left, key=cost)
            left.remove(best)
            chosen.append(best)
            load[best] += best not in partition.replicas
        plan.append({"topic": topic.name, "partition": partition.number, "replicas": chosen})
    return json.dumps({"version": 1, "partitions": plan}, separators=(",", ":"))
