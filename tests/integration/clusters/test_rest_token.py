"""A real master that asks for a signed token: Spark 4's JWSFilter on its REST submission API."""

from __future__ import annotations

import base64
import logging
import secrets
import traceback
from collections.abc import Iterator
from contextlib import closing

import jwt
import pytest

from airflow_stream_provider.clusters import ClusterConnection, DriverState, Whose, open_cluster, status_of
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from devstack.ports import HOST, free_port
from devstack.processes import Processes, java
from devstack.spark import DAEMON_JVM, bundled_spark
from tests.support.jobs import job

KEY = secrets.token_bytes(32)
FILTER = "org.apache.spark.ui.JWSFilter"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A master without workers: what it accepts waits for ever."""
    folder = tmp_path_factory.mktemp("master")
    port, rest, ui = free_port(), free_port(), free_port()
    environment = {"SPARK_HOME": str(bundled_spark()), "SPARK_LOCAL_IP": HOST, "SPARK_CONF_DIR": str(folder)}
    with closing(Processes(folder / "logs")) as processes:
        processes.start(
            "spark-master",
            [
                *(java(), *DAEMON_JVM, "-cp", f"{bundled_spark()}/jars/*"),
                *("-Dspark.master.rest.enabled=true", f"-Dspark.master.rest.port={rest}"),
                f"-Dspark.master.rest.filters={FILTER}",
                f"-Dspark.{FILTER}.param.secretKey={base64.urlsafe_b64encode(KEY).decode()}",
                "org.apache.spark.deploy.master.Master",
                *("--host", HOST, "--port", str(port), "--webui-port", str(ui)),
            ],
            env=environment,
            folder=folder,
        )
        found = {"rest_url": f"http://{HOST}:{rest}", "master_ui": f"http://{HOST}:{ui}"}
        probe = open_cluster(ClusterConnection(f"spark://{HOST}:{port}", extra=found))

        def up() -> bool:
            try:
                probe.find(Whose("nothing"), 0.0)
            except ClusterError:
                return False
            return True

        wait_for("the master", up)
        yield {**found, "host": f"spark://{HOST}:{port}"}


def connection(addresses: dict[str, str], password: str) -> ClusterConnection:
    extra = {key: addresses[key] for key in ("rest_url", "master_ui")}
    return ClusterConnection(addresses["host"], extra=extra, password=password)


def test_a_signed_token_as_the_password_lets_drivers_be_submitted_and_killed(addresses: dict[str, str]) -> None:
    token = jwt.encode({"sub": "airflow"}, KEY, algorithm="HS256")
    cluster = open_cluster(connection(addresses, token))
    submission = cluster.submit(job())
    assert status_of(cluster, submission) is DriverState.QUEUED
    cluster.kill(submission)
    assert status_of(cluster, submission) is DriverState.KILLED


@pytest.mark.parametrize("key", [b"", secrets.token_bytes(32)], ids=["none", "of another key"])
def test_without_it_nothing_is_submitted_and_it_is_shown_nowhere(
    addresses: dict[str, str], key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = jwt.encode({"sub": "airflow"}, key, algorithm="HS256") if key else ""
    cluster = open_cluster(connection(addresses, token))
    with pytest.raises(ClusterError, match="refused the connection's credentials: HTTP 403") as refused:
        cluster.submit(job())
    shown = "".join(traceback.format_exception(refused.value)) + repr(cluster) + str(vars(cluster)) + caplog.text
    assert not token or token.rpartition(".")[2] not in shown
    assert cluster.find(Whose("orders-2-1a2b"), 0.0).certain  # nothing waits
