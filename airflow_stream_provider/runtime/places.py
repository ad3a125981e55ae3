"""The places that a driver reaches: its control log, and the storage of its checkpoints."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pyspark import SparkContext
from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint.location import Storage
from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.control.bounded import NoAnswer, OnePlace
from airflow_stream_provider.control.owners import FileOwners, Owners
from airflow_stream_provider.control.root import local_folder
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlUnavailable,
    SpecError,
)
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.hadoop_files import HadoopFiles

T = TypeVar("T")

_logger = logging.getLogger(__name__)

# Seconds in which a new driver has to reach its control log: its JVM is cold, its machine may be busy, and brokers that
# are restarted one by one take minutes. Where a person has to change something, it ends at once
# (`TopicDenied`).
OPEN_SECONDS = 300.0
RETRY_SECONDS = 1.0
# Names a file on the driver's machine with settings of Kafka's Java clients, such as security.protocol, as a stream may
# set it in its `environment`. Its content never leaves the driver.
PROPERTIES = "STREAM_CONTROL_PROPERTIES"


def open_control_log(control: str, stream: str, brokers: str = "") -> ControlLog:
    """Open the control log of a driver's stream.

    :param control: control URL.
    :param brokers: ``host:port,…``, of a control log in Kafka; what the driver's own file says goes before it.
    :raises SpecError: the URL is not valid, the driver has no Kafka client, or its file of settings cannot be used.
    :raises ControlUnavailable: the log is out of reach; where it is in Kafka, for OPEN_SECONDS, or Kafka refuses the
        driver's user.
    """
    parts = urlsplit(control)
    if parts.scheme != "kafka":
        return open_log(control, stream)

    from airflow_stream_provider.control.topic import topic_name
    from airflow_stream_provider.control.topic_store import TopicStore
    from airflow_stream_provider.runtime.jvm_topic import JvmTopic

    SparkContext._ensure_initialized()  # starts the JVM, or finds the one that runs this driver
    settings = client_settings(brokers)
    name = topic_name(parts.path.strip("/"), stream)

    made: list[ControlLog] = []  # one at most: each has clients of its own, with threads and connections in the JVM

    def opened() -> ControlLog:
        if not made:
            made.append(ControlLog(TopicStore(JvmTopic(name, settings), stream), stream))
        made[0].refresh()
        return made[0]

    return within_reach(opened)


def within_reach(read: Callable[[], T], seconds: float | None = None, say: Callable[[str], object] = str) -> T:
    """Return what a driver reads of its control store, which may be out of reach for so many seconds.

    :param seconds: default: OPEN_SECONDS.
    :param say: is told why it waits; at last, with an empty text, that it does not any more.
    :raises ControlUnavailable: it is for longer, or a person has to change something first.
    """
    until = time.monotonic() + (OPEN_SECONDS if seconds is None else seconds)
    try:
        while True:
            try:
                return read()
            except ControlUnavailable as error:
                from airflow_stream_provider.runtime.jvm_topic import TopicDenied

                # A driver that has begun waits for a damaged log as for one that is away: a person restores it.
                never = TopicDenied if seconds is not None else (ControlLogDamaged, TopicDenied)
                if isinstance(error, never) or time.monotonic() > until:
                    raise
                _logger.warning("%s Trying again.", error)
                say(str(error))
                time.sleep(RETRY_SECONDS)
    finally:
        say("")


def _in_time(name: str) -> Any:
    """Return the method of this name, which has to answer in time."""

    def method(self: AnsweringStore, *args: Any) -> Any:
        return self._do(name, *args)

    return method


class AnsweringStore:
    """A store behind a deadline, whatever the file system under it does; implements `Store`.

    A hard-mounted NFS server that is away lets calls hang, and no exception ever comes: the agent would renew nothing,
    pause nothing and be halted, and so would every standby.

    One call at a time is under way. While one hangs, all others fail, so that nothing overtakes it: when the file
    system is back, a heartbeat from before does not replace a later one. A call that had no turn by its deadline is
    never made: a record must not be written after its writer has decided again. A `create` that was given up may still
    arrive, like one whose answer was lost.

    :param seconds: how long a call may take, waiting for its turn included; then it raises ControlUnavailable.
    """

    create = _in_time("create")
    read = _in_time("read")
    next_number = _in_time("next_number")
    origin = _in_time("origin")
    put_heartbeat = _in_time("put_heartbeat")
    heartbeat = _in_time("heartbeat")
    heartbeats = _in_time("heartbeats")
    put_topic_ids = _in_time("put_topic_ids")
    topic_ids = _in_time("topic_ids")
    put_saved_state = _in_time("put_saved_state")
    saved_state = _in_time("saved_state")

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._place = OnePlace("control-log")

    def _do(self, name: str, *args: Any) -> Any:
        try:
            return self._place.call(lambda: getattr(self._store, name)(*args), self._seconds, "The control log")
        except NoAnswer as error:
            raise ControlUnavailable(
                error.message,
                next_step="Check its file server, or its brokers. Nothing is lost: the drivers wait for it.",
            ) from None


def open_owners(control: str, brokers: str = "") -> Owners:
    """Return the claims of checkpoints in a driver's control store; nothing is asked for yet. See `open_control_log`.

    :raises SpecError: the URL is not valid.
    """
    parts = urlsplit(control)
    if parts.scheme != "kafka":
        return FileOwners(local_folder(control))
    from airflow_stream_provider.control.owners import TopicOwners
    from airflow_stream_provider.control.topic import Topic, root_name

    def topic() -> Topic:
        from airflow_stream_provider.runtime.jvm_topic import JvmTopic

        return JvmTopic(root_name(parts.path.strip("/")), client_settings(brokers))

    return TopicOwners(topic)


def client_settings(brokers: str) -> Any:
    """Return the settings of Kafka's clients in this driver, as `java.util.Properties`.

    The JVM reads the file itself: py4j logs what passes through it, where a script asks for that.

    :param brokers: ``host:port,…``; what the file says goes before it.
    :raises SpecError: the file cannot be read.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from airflow_stream_provider.runtime.jvm import jvm

    java = jvm().java
    found = java.util.Properties()
    found.setProperty("bootstrap.servers", brokers)
    name = os.environ.get(PROPERTIES)
    if not name:
        return found
    try:
        reader = java.nio.file.Files.newBufferedReader(java.io.File(name).toPath())  # as UTF-8
        try:
            found.load(reader)
        finally:
            reader.close()
    except (Py4JJavaError, PySparkException) as error:  # the latter of some, once there is a session
        java_error = error.java_exception if isinstance(error, Py4JJavaError) else None
        kind = type(error).__name__ if java_error is None else java_error.getClass().getSimpleName()
        raise SpecError(
            f"{PROPERTIES} names {name}, which cannot be read on the driver's machine: {kind}.",
            next_step="Put the file there, readable for the driver's user only, or remove the variable.",
        ) from error
    return found


def storage() -> Storage:
    """Return the storage of this driver, for `checkpoint.location.reach`."""
    systems: dict[str, HadoopFiles] = {}
    of_context: tuple[SparkContext | None, str] = (None, "")

    def default() -> str:
        nonlocal of_context
        context = SparkContext._active_spark_context
        # While the script creates its context, it is visible here before it is complete.
        if context is not None and context is not of_context[0] and hasattr(context, "_jsc"):
            # Not the text of the setting: Hadoop also takes `host:port` there, for HDFS.
            of = jvm.jvm().org.apache.hadoop.fs.FileSystem.getDefaultUri
            of_context = context, str(of(context._jsc.hadoopConfiguration()).toString())
        return of_context[1]

    # `setdefault` is one step: all threads get the same.
    return Storage(default, lambda root: systems.setdefault(root, HadoopFiles(root, _connect)))


def _connect(root: str) -> Any:
    machine = jvm.jvm()
    session = SparkSession._instantiatedSession
    if session is not None:
        # With the settings of the script's session, as Spark opens it: the first caller decides for both, because
        # Hadoop keeps one FileSystem for all.
        conf = session._jsparkSession.sessionState().newHadoopConf()
    else:
        context = SparkContext._active_spark_context
        conf = (
            context._jsc.hadoopConfiguration()
            if context is not None
            else machine.org.apache.hadoop.conf.Configuration()
        )
    return machine.org.apache.hadoop.fs.FileSystem.get(machine.java.net.URI(f"{root}/"), conf)
