"""What is told about masters that do not answer, or answer with an error."""

from __future__ import annotations

import socket
import time

import pytest

from airflow_stream_provider.clusters import ClusterConnection, DriverState, Whose, open_cluster, status_of
from airflow_stream_provider.clusters.master_api import first_line
from airflow_stream_provider.lifecycle.errors import ClusterError


def test_an_unreachable_master_is_named_with_a_next_step() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        port = nobody.getsockname()[1]
        cluster = open_cluster(ClusterConnection("spark://127.0.0.1", 7077, {"master_ui": f"http://127.0.0.1:{port}"}))
        for use in (lambda: cluster.find(Whose("d"), time.time()), lambda: cluster.kill("driver-1")):
            with pytest.raises(ClusterError) as error:
                use()
            assert error.value.message == (
                f"No Spark master of spark://127.0.0.1:7077 answers: http://127.0.0.1:{port} cannot be reached."
            )
            assert "master_ui" in error.value.next_step
        assert status_of(cluster, "driver-1") is DriverState.UNKNOWN
        assert not cluster.remains("driver-1", Whose("d")).gone


def test_a_master_s_message_is_shown_without_its_stack_trace() -> None:
    message = "Exception from the cluster:\njava.io.IOException: no such file.\n\torg.apache.X.y(X.scala:1)"
    assert first_line(message) == "java.io.IOException: no such file"
    assert first_line(None) == ""
