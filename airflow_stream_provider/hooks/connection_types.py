"""The hooks of the connection types in get_provider_info.py: what the form's button `Test` asks."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

from airflow.sdk import BaseHook

from airflow_stream_provider.control.bounded import call
from airflow_stream_provider.hooks.connections import cluster_connection, kafka_extra
from airflow_stream_provider.lifecycle.errors import StreamError

log = logging.getLogger(__name__)

# Two requests of at most 10 s each, with the imports of a client.
TEST_SECONDS = 25.0
# In place of the connection's id: Airflow tests a copy of what stands in the form, by an id that it has drawn.
_UNDER_TEST = "under test"


class _TestedHook(BaseHook):
    """A hook that asks what is behind its connection.

    :param conn_id: of the connection.
    """

    conn_name_attr = "conn_id"
    conn_type: str
    hook_name: str

    def __init__(self, conn_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Return whether what the connection names answers within 25 s, and what or why not; nothing is started."""
        try:
            # Read here, asked in a thread: not every thread of Airflow's can read connections.
            return True, call(self._question(), TEST_SECONDS, f"{self.hook_name}: what the connection names")
        except StreamError as error:
            return False, str(error)
        except Exception as error:  # noqa: BLE001 - Airflow would show its text, which may hold a secret
            name, where = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
            log.warning("The test of a connection (%s) failed with %s:\n%s", self.hook_name, name, where)
            return False, f"The test failed with {name}. The log of Airflow's API server says where."

    def _question(self) -> Callable[[], str]:
        raise NotImplementedError


class _ClusterHook(_TestedHook):
    def _question(self) -> Callable[[], str]:
        from airflow_stream_provider.clusters import open_cluster

        connection = cluster_connection(self.conn_id)
        return lambda: open_cluster(connection).answer()


class StandaloneHook(_ClusterHook):
    """A connection to the masters of a standalone Spark cluster."""

    conn_type = "spark_standalone"
    hook_name = "Spark streams: standalone"


class YarnHook(_ClusterHook):
    """A connection to the ResourceManagers of a YARN."""

    conn_type = "spark_yarn"
    hook_name = "Spark streams: YARN"


class KubernetesHook(_ClusterHook):
    """A connection to the API server of a Kubernetes cluster."""

    conn_type = "spark_kubernetes"
    hook_name = "Spark streams: Kubernetes"


class KafkaHook(_TestedHook):
    """A connection to the brokers of a Kafka cluster."""

    conn_type = "kafka_stream"
    hook_name = "Spark streams: Kafka"

    def _question(self) -> Callable[[], str]:
        from airflow_stream_provider.hooks.lag import kafka_answer

        extra = kafka_extra(self.conn_id)
        return lambda: kafka_answer(_UNDER_TEST, extra)
