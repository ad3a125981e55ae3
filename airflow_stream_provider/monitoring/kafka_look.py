"""Measure the lag of all streams of one Kafka connection: one client and one measurement, with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.control.bounded import call, start
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lag.reader import measure_apart
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

T = TypeVar("T")

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

    def connect(self) -> None:
        """Connect, or find out why that is not possible; returns in time."""
        if not self.problem:
            self._client = self._in_time(self._connect, CONNECT_SECONDS)

    def measure(self, committed: Mapping[str, Sequence[Committed]], moments: Mapping[str, Moments]) -> None:
        """Measure these streams together; returns in time.

        :param committed: how far the queries of each stream are.
        :param moments: by stream, what its report must say exactly.
        """
        client = self._client
        if client is not None:
            found = self._in_time(lambda: measure_apart(client, committed, moments, str), MEASURE_SECONDS)
            self.reports = found or {}
            # Not waited for: what hangs ends with the process.
            start(client.close, f"close {self.conn_id}")

    def _connect(self) -> KafkaClient:
        from airflow_stream_provider.kafka.client import KafkaClient

        assert not isinstance(self._extra, StreamError)
        return KafkaClient(self.conn_id, self._extra)

    def _in_time(self, ask: Callable[[], T], seconds: float) -> T | None:
        """Return the answer; None, and the problem is known, when there is none."""
        what = f"The Kafka of the connection {self.conn_id!r}"
        hint = "Check that the brokers run, and that this machine reaches their advertised listeners."
        try:
            return call(ask, seconds, what, hint)
        except StreamError as error:
            self.problem = str(error)
        except Exception as error:  # noqa: BLE001 - its text may hold secrets
            self.problem = f"{what} cannot be asked: {type(error).__name__}."
        return None
