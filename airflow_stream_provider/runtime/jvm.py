"""Access to the driver's JVM through py4j, for the boundary stop and the lease watchdog."""

from __future__ import annotations

import functools
from typing import Any

from py4j.clientserver import ClientServer, ClientServerConnection
from pyspark import SparkContext

from airflow_stream_provider.lifecycle.errors import StreamError


def gateway() -> ClientServer:
    """Return the py4j gateway of this driver, in which every Python thread has a JVM thread of its own.

    :raises StreamError: there is no JVM yet, or `PYSPARK_PIN_THREAD=false` has switched pinned threads off; a lock
        taken in one call could then not be released in the next.
    """
    found = SparkContext._gateway
    if found is None:
        raise StreamError("There is no Spark JVM in this process.", next_step="Create the SparkSession first.")
    if not isinstance(found, ClientServer):
        raise StreamError(
            "py4j runs without pinned threads (PYSPARK_PIN_THREAD is set to false).",
            next_step="Remove PYSPARK_PIN_THREAD from the driver's environment.",
        )
    return found


def jvm() -> Any:
    """Return py4j's view of the driver's JVM."""
    return gateway().jvm


def wait_for_answers() -> None:
    """Let calls take as long as they take, also after the script has called `socket.setdefaulttimeout`.

    The first call of a thread connects it, with the default of that moment. A rehearsal, or a stop at a boundary, makes
    calls that last longer than what a script allows a web server.
    """
    connect = ClientServerConnection.connect_to_java_server

    @functools.wraps(connect)
    def connect_and_wait(self: Any) -> None:
        connect(self)
        self.socket.settimeout(self.java_parameters.read_timeout or None)

    ClientServerConnection.connect_to_java_server = connect_and_wait


def scala_object(neighbour: Any, name: str) -> Any:
    """Return the Scala object `name` that lives in the package of the object `neighbour`.

    It uses Spark's class loader, because the thread's own does not know Spark under spark-submit. It takes the
    package from an object at hand, because Spark 4.1 moved it.
    """
    cls = neighbour.getClass()
    package = cls.getName().rpartition(".")[0]
    return cls.getClassLoader().loadClass(f"{package}.{name}$").getField("MODULE$").get(None)


def stack(thread: Any) -> list[str]:
    """Return the method names on a Java thread's stack, innermost first (about 10 ms).

    py4j cannot pass `StackTraceElement[]` to a method that takes `Object[]`, so the JDK prints it instead.
    """
    java = jvm().java
    trace = java.lang.Throwable()
    trace.setStackTrace(thread.getStackTrace())
    text = java.io.StringWriter()
    trace.printStackTrace(java.io.PrintWriter(text))
    return [line.split("(")[0].rpartition(".")[2] for line in text.toString().splitlines()[1:]]
