"""Where the executors of this driver's application are, and have been."""

from __future__ import annotations

import logging
import threading
import time

from pyspark import SparkContext

# How often Spark is asked; less often where the answer takes long: asking takes a twentieth of the time at most.
SECONDS = 5.0
SHARE = 20

log = logging.getLogger(__name__)


class ExecutorHosts:
    """Asks Spark in a thread of its own: it takes two calls of py4j for each executor, and there may be hundreds.

    The thread that renews the lease, and looks every 50 ms while a request is open, only reads what is `known`.
    """

    def __init__(self) -> None:
        # Every host that Spark has named so far; None before it has. One that it has lost may run an executor still.
        self.known: tuple[str, ...] | None = None
        self._thread: threading.Thread | None = None

    def follow(self) -> None:
        """Begin to ask, unless that has begun; there must be a SparkContext."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._go_on, name="airflow-stream-hosts", daemon=True)
            self._thread.start()

    def _go_on(self) -> None:
        while True:
            began = time.monotonic()
            self.ask(SparkContext._active_spark_context)
            time.sleep(max(SECONDS, SHARE * (time.monotonic() - began)))

    def ask(self, context: SparkContext | None) -> None:
        """Add the hosts that Spark names now."""
        try:
            # From Spark's own list in memory. Others ask the block manager, which may take two minutes to answer.
            infos = context._jsc.sc().statusTracker().getExecutorInfos() if context is not None else ()
            named = [each.host() for each in infos]
        except Exception as error:  # noqa: BLE001 - such as of a context that stops, or is not complete yet
            log.debug("Spark cannot say where the executors are: %s", type(error).__name__)
            return
        if named:
            self.known = tuple(sorted({*(self.known or ()), *named}))
