"""The events for the script's own StreamingQueryListeners: of real runs, and that a standby is alive.

They hear nothing of rehearsals, nor that a run has ended which the runtime itself has stopped: the query goes on, here
after a take-back or in another driver. A listener that ends its process when a query ends would end the stream.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from pyspark.sql.streaming.listener import QueryIdleEvent, StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

# As often as Spark tells of a query without new data (spark.sql.streaming.noDataProgressEventInterval).
IDLE_SECONDS = 10.0

log = logging.getLogger(__name__)


class RealRunsOnly(StreamingQueryListener):
    """Passes the events of real queries on to the script's listener.

    :param hidden: the ids of rehearsals' queries; it grows.
    :param stopped: the ids of runs that the runtime has stopped; it grows.
    """

    def __init__(self, inner: StreamingQueryListener, hidden: set[str], stopped: set[str]) -> None:
        self._inner = inner
        self._hidden = hidden
        self._stopped = stopped

    def _pass(self, event: Any, query_id: str, method: str) -> None:
        handler = getattr(self._inner, method, None)
        if str(query_id) not in self._hidden and handler is not None:
            handler(event)

    def onQueryStarted(self, event: Any) -> None:
        """Tell the script's listener that a real query started."""
        self._pass(event, event.id, "onQueryStarted")

    def onQueryProgress(self, event: Any) -> None:
        """Give the script's listener the progress of a real query."""
        self._pass(event, event.progress.id, "onQueryProgress")

    def onQueryIdle(self, event: Any) -> None:
        """Tell the script's listener that a real query found no new data."""
        self._pass(event, event.id, "onQueryIdle")

    def onQueryTerminated(self, event: Any) -> None:
        """Tell the script's listener that a real query ended: it failed, is done, or the script stopped it."""
        if str(event.runId) not in self._stopped:
            self._pass(event, event.id, "onQueryTerminated")


class SignsOfLife:
    """Tells the script's listeners every 10 s that a query is idle which does not run here: this driver is a standby.

    A watchdog in the script that waits for any event would otherwise end a healthy standby.

    :param idle: returns the queries that wait to run here.
    :param listeners: returns the listeners that the script has added.
    """

    def __init__(
        self,
        idle: Callable[[], Sequence[StreamingQuery]],
        listeners: Callable[[], Sequence[RealRunsOnly]],
    ) -> None:
        self._idle = idle
        self._listeners = listeners

    def start(self) -> None:
        """Tell them from now on, in a thread of its own."""
        threading.Thread(target=self._run, name="airflow-stream-signs-of-life", daemon=True).start()

    def tell(self) -> None:
        """Tell each listener once of each query; an error of a listener is logged, as Spark does."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for query in self._idle():
            event = QueryIdleEvent(uuid.UUID(query.id), uuid.UUID(query.runId), now)
            for listener in self._listeners():
                try:
                    listener.onQueryIdle(event)
                except Exception:
                    log.exception("A listener of the script failed")

    def _run(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS)
            self.tell()
