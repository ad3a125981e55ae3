"""The operating system process of a driver: its identity, its lease watchdog, and how it exits, halts or is stopped."""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import application_of
from airflow_stream_provider.runtime import jvm
from airflow_stream_provider.runtime.adopted_logs import AdoptedLogs
from airflow_stream_provider.runtime.driver_folders import check_kept
from airflow_stream_provider.runtime.lease_watchdog import HALT_CODE, LeaseWatchdog, end_with_jvm
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import within_reach
from airflow_stream_provider.runtime.vitals import DriverVitals

# How often Spark is asked where its executors are.
HOSTS_SECONDS = 5.0


class ExecutorHosts:
    """Every host that Spark has named so far. `ask` is a job of the side thread: it takes two calls of py4j for each
    executor, and there may be hundreds.
    """

    def __init__(self) -> None:
        # None before Spark has named one. One that it has lost may run an executor still.
        self.known: tuple[str, ...] | None = None

    def ask(self) -> float:
        """Add the hosts that Spark names now; return after how many seconds to ask again, at most 5 % of the time."""
        began = time.monotonic()
        self._add()
        return max(HOSTS_SECONDS, 20 * (time.monotonic() - began))

    def _add(self) -> None:
        context = SparkContext._active_spark_context
        try:
            # From Spark's own list in memory. Others ask the block manager, which may take two minutes to answer.
            infos = context._jsc.sc().statusTracker().getExecutorInfos() if context is not None else ()
            named = [each.host() for each in infos]
        except Exception as error:  # noqa: BLE001 - such as of a context that stops, or is not complete yet
            log.debug("Spark cannot say where the executors are: %s", type(error).__name__)
            return
        if named:
            self.known = tuple(sorted({*(self.known or ()), *named}))


log = logging.getLogger(__name__)

# Runs before Spark's own shutdown hook (ShutdownHookManager.SPARK_CONTEXT_SHUTDOWN_PRIORITY is 50; its hook in Hadoop's
# manager runs at FileSystem.SHUTDOWN_HOOK_PRIORITY + 30 = 40).
HOOK_PRIORITY = 1000
HOOK_SECONDS = 20
# How long Spark may take to end the executors; whatever it does not end goes with the application.
STOP_SECONDS = 60.0
# How long a checkpoint without an owner is watched once more, when this driver holds already.
CLAIM_SECONDS = 5.0


class DriverProcess:
    """The process of a driver; also owns checkpoints in the stream's name.

    :param ownership: which checkpoints are the stream's.
    :param adopts: whether a job without a stream may write the checkpoints until this driver takes over.
    """

    def __init__(self, ownership: Ownership, app_name: str, lease_seconds: float, *, adopts: bool = False) -> None:
        self._ownership = ownership
        self._adopts = adopts
        self.adopted = AdoptedLogs()
        # By location: where a checkpoint without an owner stood when it was checked.
        self._unowned: dict[str, checkpoints.LogEnds] = {}
        # The last error of the control store while it is asked for a checkpoint's owner; empty while it answers.
        self._waits = ""
        self._over = threading.Event()
        self._hook = _Hook(self._over)
        SparkContext._ensure_initialized()  # starts the JVM; the SparkContext is created by the script
        end_with_jvm()
        self._watchdog = LeaseWatchdog(lease_seconds)
        self.hosts = ExecutorHosts()
        self.vitals = DriverVitals(os.getppid())
        # The context whose application the heartbeat names.
        self._context: SparkContext | None = None
        _name_application(app_name)
        self._facts = Heartbeat(
            pid=os.getpid(),
            jvm_pid=os.getppid(),
            host=socket.gethostname(),
            spark_version=pyspark.__version__,
            submission=_submission(),
        )

    @property
    def facts(self) -> Heartbeat:
        """Identity for the heartbeat; the application's id and UI are empty until the script has a SparkContext.

        `message` says why it waits for the control store, as for rights that its user lacks there; or how far the job
        is that is to be adopted.
        """
        context = SparkContext._active_spark_context
        # While the script creates its context, or stops it, it is visible here and not complete. It may make another.
        if context is not None and context is not self._context and getattr(context, "_jsc", None) is not None:
            self._facts = replace(self._facts, application_id=context.applicationId, ui_url=context.uiWebUrl or "")
            self._context = context
        found = replace(self._facts, executor_hosts=self.hosts.known, vitals=self.vitals.last)
        return replace(found, message=self._waits or self.adopted.says)

    @property
    def waits_for(self) -> str:
        """Which checkpoint of the job that is to be adopted does not stand still yet; empty: none."""
        return self.adopted.moving

    def postpone(self, sent: float) -> None:
        """Postpone the lease watchdog; see `LeaseWatchdog.postpone`."""
        self._watchdog.postpone(sent)

    def check_checkpoint(self, location: str) -> None:
        """Check that this stream may use the checkpoint. One that has no owner yet is watched for some seconds.

        One that is to be adopted may be written by its job: it is watched from now on, until this driver claims it.

        :raises CheckpointError: its location cannot be used, another stream owns it, an unmanaged job writes it, or
            there is no batch in one that is to be adopted.
        :raises TopicDenied: Kafka does not let the driver's user read and write the claims.
        """
        check_kept(location)
        checkpoints.check_location(location)
        # A rehearsal holds up nothing.
        owned = within_reach(lambda: self._ownership.check(location), math.inf, partial(setattr, self, "_waits"))
        if self._adopts:
            self.adopted.watch(location)
        elif not owned:
            checkpoints.refuse_if_being_written(location)
            self._unowned[location] = checkpoints.boundary(location)

    def claim(self, location: str) -> None:
        """Record this stream as the owner of the checkpoint.

        One without an owner is looked at again: an unmanaged job may have started since it was checked. That takes
        `CLAIM_SECONDS` when it has logs; a checkpoint that the stream owns takes no time.

        :raises CheckpointError: another stream owns it, an unmanaged job writes it, or it ends with this driver.
        :raises ControlUnavailable: the control store does not answer. It is not waited for: this driver holds, and
            could not be stopped or relieved meanwhile.
        """
        check_kept(location)
        owned = self._ownership.check(location)
        # One that the job wrote was watched all the time, and not only now; a query that is new is like any other.
        watched = self.adopted.refuse_if_moved(location, CLAIM_SECONDS)
        if not watched and not owned:
            checkpoints.refuse_if_being_written(location, CLAIM_SECONDS, since=self._unowned.get(location))
        self._ownership.claim(location)
        self.adopted.let_go(location)

    def on_terminate(self, callback: Callable[[], None]) -> None:
        """Call back when the JVM shuts down on SIGTERM; the shutdown then waits up to 20 s for `exit` or `halt`."""
        self._hook.callback = callback
        gateway = jvm.gateway()
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        java = gateway.jvm.java
        manager = gateway.jvm.org.apache.hadoop.util.ShutdownHookManager.get()
        seconds = java.util.concurrent.TimeUnit.SECONDS
        manager.addShutdownHook(java.lang.Thread(self._hook), HOOK_PRIORITY, HOOK_SECONDS, seconds)

    def exit(self) -> None:
        """End the process with code 0; executors end first, so that their cores are free when the driver is gone."""
        self._over.set()
        self._watchdog.disarm()
        session = SparkSession._instantiatedSession
        try:
            if session is not None and not self._hook.shutting_down:
                wait([start(session.stop, "stop")], STOP_SECONDS)
        finally:
            os._exit(0)  # without the watchdog nothing else ends this process

    def halt(self) -> None:
        """End the process at once with code 50, as the lease watchdog does; nothing more is written."""
        self._over.set()
        try:
            jvm.jvm().java.lang.Runtime.getRuntime().halt(HALT_CODE)
        finally:
            os._exit(HALT_CODE)  # also when the JVM can no longer be reached


class _Hook:
    """A Java Runnable: calls back on shutdown, and waits until the driver has released the stream."""

    def __init__(self, over: threading.Event) -> None:
        self.callback: Callable[[], None] = lambda: None
        self.shutting_down = False
        self._over = over

    def run(self) -> None:
        self.shutting_down = True
        if not self._over.is_set():
            log.warning("The JVM is shutting down: releasing the stream at its batch boundary.")
            self.callback()
            self._over.wait(HOOK_SECONDS)

    class Java:
        implements = ["java.lang.Runnable"]  # noqa: RUF012 - py4j's convention


def _submission() -> str:
    """Return the cluster's id of this driver: on YARN the application's; a standalone worker names its folder by it."""
    application = application_of(os.environ.get("CONTAINER_ID", ""))
    if application:
        return application
    folder = Path.cwd().name
    return folder if folder.startswith("driver-") else os.environ.get("AIRFLOW_STREAM_SUBMISSION", "")


def _name_application(name: str) -> None:
    """Force the deployment's application name on the script's SparkContext, however it makes one.

    The cluster is searched by that name, and an application that is not found counts as gone.
    """
    create, session = SparkContext._initialize_context, SparkSession.Builder.getOrCreate

    # Every way to a SparkContext comes through here with its final conf: SparkContext(appName=…), SparkConf, a builder.
    def initialize(self: SparkContext, jconf: Any) -> Any:
        # A script may ask for so few attempts that Spark would refuse to exclude an executor, as Airflow asks it to.
        if jconf.getInt("spark.task.maxFailures", 4) <= 2:
            jconf.set("spark.excludeOnFailure.enabled", "false")
        return create(self, jconf.set("spark.app.name", name))

    # The builder also copies its options to the session's conf.
    def get_or_create(self: SparkSession.Builder) -> SparkSession:
        return session(self.config("spark.app.name", name))

    SparkContext._initialize_context = initialize  # type: ignore[method-assign]
    SparkSession.Builder.getOrCreate = get_or_create  # type: ignore[method-assign]
