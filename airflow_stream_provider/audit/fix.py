"""The commands that fix what an audit finds: templates, shell quoting, and where replicas should go.

A template's names in braces are filled with values quoted for a POSIX shell. `{server}` is what every one of Kafka's
tools needs to reach the cluster; `{pattern}` is the topic as the regular expression that
`kafka-topics.sh` takes it for.
"""

from __future__ import annotations

import json
import shlex
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_stream_provider.audit.facts import BrokerFacts, Topic

COPIES = 3

REASSIGN = "printf %s {plan} | kafka-reassign-partitions.sh {server} --reassignment-json-file /dev/stdin --execute"


def topic_setting(key: str, value: str = "{value}") -> str:
    """Return the command that gives a topic a setting."""
    return (
        f"kafka-configs.sh {{server}} --alter --entity-type topics --entity-name {{topic}} --add-config {key}={value}"
    )


def broker_file(key: str, value: str = "{value}") -> str:
    """Return the command for a setting that brokers read at their start only."""
    return f"echo {key}={value} >> server.properties  # of broker {{broker}}, then restart it"


def tool_arguments(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments with which Kafka's tools reach the cluster of a connection (its extra).

    Where that needs more than an address, the person who runs them has a file for it: secrets are in no report.
    """
    server = ("--bootstrap-server", str(extra.get("bootstrap.servers", "")))
    plain = str(extra.get("security.protocol", "PLAINTEXT")).upper() == "PLAINTEXT"
    return server if plain else (*server, "--command-config", "client.properties")


def fill_template(template: str, server: Sequence[str], values: Mapping[str, object]) -> str:
    """Return the command of a template, its values quoted."""
    known = {name: shlex.quote(str(value)) for name, value in values.items()}
    if "topic" in values:
        known.setdefault("pattern", shlex.quote(str(values["topic"]).replace(".", r"\.")))
    # kafka-cluster.sh alone calls the file of its client's settings otherwise.
    cluster = ["--config" if each == "--command-config" else each for each in server]
    return template.format_map({**known, "server": shlex.join(server), "cluster": shlex.join(cluster)})


def template_for_docs(template: str) -> str:
    """Return a template for people: its names in capitals."""
    names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    known = {name: name.upper() for name in names}
    server = "--bootstrap-server HOST:PORT"
    return template.format_map({**known, "pattern": "TOPIC", "server": server, "cluster": server})


def reassignment(topic: Topic, brokers: Iterable[BrokerFacts], copies: int = COPIES) -> str:
    """Return the plan, for `kafka-reassign-partitions.sh`, that gives every partition this many replicas, racks apart.

    Replicas stay where they are unless another rack has none; the first one, the preferred leader, always stays.
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
