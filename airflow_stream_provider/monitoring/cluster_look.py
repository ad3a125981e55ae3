"""Ask one cluster once for all streams that run there, with a deadline."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_stream_provider.clusters import ClusterConnection, DriverView, import_client, open_cluster
from airflow_stream_provider.control.bounded import call
from airflow_stream_provider.lifecycle.errors import StreamError

ASK_SECONDS = 11.0


class ClusterLook:
    """One cluster during one look.

    :param conn_id: Airflow connection of the cluster.
    :param connection: its fields, or why it cannot be read.
    """

    def __init__(self, conn_id: str, connection: ClusterConnection | StreamError) -> None:
        self.conn_id = conn_id
        # Why the cluster says nothing; empty: it answers.
        self.problem = ""
        self.drivers: Mapping[str, DriverView] = {}
        self._connection = connection
        if not isinstance(connection, StreamError):
            import_client(connection)  # not in the time for asking

    def ask(self, submissions: Collection[str]) -> None:
        """Ask about these drivers; returns in time."""
        what = f"The cluster of the connection {self.conn_id!r}"
        try:
            self.drivers = call(lambda: self._ask(submissions), ASK_SECONDS, what)
        except StreamError as error:
            self.problem = str(error)
        except Exception as error:  # noqa: BLE001 - such as of a client library
            self.problem = f"{what} cannot be asked: {type(error).__name__}."

    def _ask(self, submissions: Collection[str]) -> Mapping[str, DriverView]:
        if isinstance(self._connection, StreamError):
            raise self._connection
        return open_cluster(self._connection).overview(submissions)
