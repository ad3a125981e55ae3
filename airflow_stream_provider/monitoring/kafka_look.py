"""Measure the lag of all streams of one Kafka connection: one client and one measurement, with a deadline."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.guarded_reads import GuardedReads, ReadHangs
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lag.reader import measure_apart
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

# Seconds for a connection, and for a measurement of all streams.
CONNECT_SECONDS = 12.0
MEASURE_SECONDS = 12.0


class KafkaLook:
    """One Kafka during one look.

    :param conn_id: Airflow connection of type `kafka`.
    :param extra: its extra, or why it cannot be read.
    """

    def __init__(self, conn_id: str, extra: Mapping[str, Any] | StreamError) -> None:
        self.conn_id = conn_id
        # Why nothing is known of any lag there; empty: Kafka answers.
        self.problem = str(extra) if isinstance(extra, StreamError) else ""
        self.reports: Mapping[str, LagReport | StreamError] = {}
        self._extra = extra
        self._client: KafkaClient | None = None
        self._calls: GuardedReads[str, Any] = GuardedReads()

    def connect(self) -> None:
        """Connect, or find out why that is not possible; returns in time."""
        if not self.problem:
            found = self._in_time("connect", self._connect, CONNECT_SECONDS)
            self._client = None if isinstance(found, Exception) else found

    def measure(self, committed: Mapping[str, Sequence[Committed]], moments: Mapping[str, Moments]) -> None:
        """Measure these streams together; returns in time.

        :param committed: how far the queries of each stream are.
        :param moments: by stream, what its report must say exactly.
        """
        client = self._client
        if client is not None:
            found = self._in_time("measure", lambda: measure_apart(client, committed, moments, str), MEASURE_SECONDS)
            self.reports = {} if isinstance(found, Exception) else found
            # Not waited for: what hangs ends with the process.
            threading.Thread(target=client.close, name=f"close {self.conn_id}", daemon=True).start()

    def _connect(self) -> KafkaClient:
        from airflow_stream_provider.kafka.client import KafkaClient

        assert not isinstance(self._extra, StreamError)
        return KafkaClient(self.conn_id, self._extra)

    def _in_time(self, what: str, call: Any, seconds: float) -> Any:
        found = self._calls.run({what: call}, seconds)[what]
        if isinstance(found, ReadHangs):
            self.problem = (
                f"The Kafka of the connection {self.conn_id!r} has not answered for {seconds:.0f} s. Check that the "
                "brokers run, and that this machine reaches their advertised listeners."
            )
        elif isinstance(found, StreamError):
            self.problem = str(found)
        elif isinstance(found, Exception):
            # The text of a foreign error may hold secrets.
            self.problem = f"The Kafka of the connection {self.conn_id!r} cannot be asked: {type(found).__name__}."
        return found
