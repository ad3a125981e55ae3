"""An application on YARN that this provider has not started."""

from __future__ import annotations

from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.cluster import DriverState, UnmanagedView
from airflow_stream_provider.clusters.worker_hosts import WorkerHosts
from airflow_stream_provider.clusters.yarn_connection import YarnSettings
from airflow_stream_provider.clusters.yarn_remains import application_remains
from airflow_stream_provider.clusters.yarn_request import COMMON_TAG, said_tags
from airflow_stream_provider.clusters.yarn_status import state_of
from airflow_stream_provider.lifecycle.errors import ClusterError


class YarnUnmanaged:
    """Implements `UnmanagedJob`. In client mode its driver is not on YARN: Spark stops it when it ends the application.

    :param hosts: nodes that may be asked.
    """

    def __init__(self, settings: YarnSettings, hosts: WorkerHosts, id: str) -> None:
        if not api.is_application(id):
            raise ClusterError(
                f"{id} is no application of YARN.",
                next_step="Give its id, such as application_1410450250506_0001: `yarn application -list` has it.",
                job=id,
            )
        self._settings = settings
        self._hosts = hosts
        self._id = id

    def look(self) -> UnmanagedView:
        """Ask the ResourceManager about it, and every node about its containers."""
        manager = api.find_active(self._settings)
        app = api.application(manager, self._id)
        if app is None:
            return UnmanagedView(self._id, DriverState.LOST)
        remains = application_remains(manager, self._hosts, self._id, app, api.nodes(manager), None)
        about = f"application {self._id} ({app.get('name')}) of {app.get('user')} in the queue {app.get('queue')}"
        return UnmanagedView(self._id, state_of(app), about, remains, COMMON_TAG in said_tags(app))

    def end(self) -> None:
        """Ask the ResourceManager to kill it; YARN decides whether the connection's user may."""
        api.kill(api.find_active(self._settings), self._id)
