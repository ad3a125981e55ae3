"""A process with a JVM as a driver has one, before its session: it uses a control log in a topic, as it is told.

    python -m tests.support.jvm_topic SERVERS TOPIC [SETTING=VALUE ...] < orders

Each line of its input is an order, answered by a line: `read` the holder, `beat N` a heartbeat with this counter,
`claim LOCATION STREAM` and `owner LOCATION` of a checkpoint, where the topic is that of a control root, `age` the
seconds since the producer last learned who leads, `recovery` what the producer does when it reaches no broker that it
knows. The setting `open.seconds` says how long it tries to open the log.
"""

from __future__ import annotations

import sys
import time

from pyspark import SparkContext

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.owners import TopicOwners
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime.jvm_topic import JvmTopic
from airflow_stream_provider.runtime.places import client_settings
from tests.support.story import OLD

OPEN_SECONDS = 60.0


def main(servers: str, topic: str, *settings: str) -> None:
    """Open the log, and carry out the orders."""
    SparkContext._ensure_initialized()
    properties = client_settings(servers)
    found = dict(each.split("=", 1) for each in settings)
    until = time.monotonic() + float(found.pop("open.seconds", OPEN_SECONDS))
    for name, value in found.items():
        properties.setProperty(name, value)
    while True:
        try:
            opened = JvmTopic(topic, properties)
            break
        except StreamError as error:
            # On a busy machine the first answer takes a cold JVM longer than it waits.
            if "TimeoutException" not in str(error) or time.monotonic() > until:
                print(f"{type(error).__name__}: {error}", flush=True)
                return
    log = ControlLog(TopicStore(opened, "orders"), "orders")
    owners = TopicOwners(lambda: opened)
    print("open", flush=True)
    for order in sys.stdin:
        try:
            print(_done(opened, log, owners, *order.split()), flush=True)
        except StreamError as error:
            print(f"{type(error).__name__}: {error}", flush=True)


def _done(topic: JvmTopic, log: ControlLog, owners: TopicOwners, order: str, *arguments: str) -> str:
    if order == "age":
        metrics = topic._producer.metrics().values()
        return next(str(each.metricValue()) for each in metrics if each.metricName().name() == "metadata-age")
    if order == "recovery":
        settings = topic._producer.getClass().getDeclaredField("producerConfig")  # which it shows nobody
        settings.setAccessible(True)
        return str(settings.get(topic._producer).values().get("metadata.recovery.strategy"))
    if order == "claim":
        return owners.claim(*arguments)
    if order == "owner":
        return str(owners.owner(*arguments))
    if order == "read":
        return f"{log.refresh().seq} {log.state.holder}"
    log.beat(OLD, Heartbeat(counter=int(arguments[0])))
    return "beaten"


if __name__ == "__main__":
    main(*sys.argv[1:])
