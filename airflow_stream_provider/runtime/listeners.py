"""Hides rehearsals from the script's own StreamingQueryListeners."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener


class RealRunsOnly(StreamingQueryListener):
    """Passes the events of real queries, not of rehearsals, on to the script's listener."""

    def __init__(self, inner: StreamingQueryListener, hidden: set[str]) -> None:
        self._inner = inner
        self._hidden = hidden

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
        """Tell the script's listener that a real query ended."""
        self._pass(event, event.id, "onQueryTerminated")
