"""How a driver opens its control log, wherever that lives."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.control.owners import FileOwners, Owners
from airflow_stream_provider.control.root import local_folder
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    SpecError,
)

_logger = logging.getLogger(__name__)

# Seconds in which a new driver has to reach its control log in Kafka: its JVM is cold, and its machine may be busy.
OPEN_SECONDS = 60.0
# Names a file on the driver's machine with settings of Kafka's Java clients, such as security.protocol, as a stream
# may set it in its `environment`. What is in it never leaves the driver.
PROPERTIES = "STREAM_CONTROL_PROPERTIES"


def open_control_log(control: str, stream: str, brokers: str = "") -> ControlLog:
    """Open the control log of a driver's stream.

    :param control: control URL.
    :param brokers: ``host:port,…``, of a control log in Kafka; what the driver's own file says goes before it.
    :raises SpecError: the URL is not valid, the driver has no Kafka client, or its file of settings cannot be used.
    :raises ControlUnavailable: the log is out of reach; where it is in Kafka, for OPEN_SECONDS.
    """
    parts = urlsplit(control)
    if parts.scheme != "kafka":
        return open_log(control, stream)
    from pyspark import SparkContext

    from airflow_stream_provider.control.topic import topic_name
    from airflow_stream_provider.control.topic_store import TopicStore
    from airflow_stream_provider.runtime.jvm_topic import JvmTopic

    SparkContext._ensure_initialized()  # starts the JVM, or finds the one that runs this driver
    settings = {"bootstrap.servers": brokers, **_settings()}
    name = topic_name(parts.path.strip("/"), stream)
    until = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            log = ControlLog(TopicStore(JvmTopic(name, settings), stream), stream)
            log.refresh()
            return log
        except (ControlLogDamaged, ControlLogReplaced):
            raise
        except ControlUnavailable as error:
            if time.monotonic() > until:
                raise
            _logger.warning("%s Trying again.", error)
            time.sleep(1.0)


def open_owners(control: str, brokers: str = "") -> Owners:
    """Return the claims of checkpoints in a driver's control store; nothing is asked for yet. See `open_control_log`.

    :raises SpecError: the URL is not valid.
    """
    parts = urlsplit(control)
    if parts.scheme != "kafka":
        return FileOwners(local_folder(control))
    from airflow_stream_provider.control.topic import Topic, root_name
    from airflow_stream_provider.control.topic_owners import TopicOwners

    def topic() -> Topic:
        from airflow_stream_provider.runtime.jvm_topic import JvmTopic

        return JvmTopic(root_name(parts.path.strip("/")), {"bootstrap.servers": brokers, **_settings()})

    return TopicOwners(topic)


def _settings() -> Mapping[str, str]:
    """Return what the file of settings says."""
    name = os.environ.get(PROPERTIES)
    if not name:
        return {}
    from airflow_stream_provider.runtime.jvm import jvm

    try:
        text = Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"{PROPERTIES} names {name}, which cannot be read on the driver's machine: {type(error).__name__}.",
            next_step="Put the file there, readable for the driver's user only, or remove the variable.",
        ) from error
    found = jvm().java.util.Properties()
    found.load(jvm().java.io.StringReader(text))
    return {str(key): str(found.getProperty(key)) for key in found.stringPropertyNames().toArray()}
