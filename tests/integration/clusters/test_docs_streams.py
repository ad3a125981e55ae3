"""The streams of docs/control.md and docs/storage.md, deployed as the pages say, run with real drivers on a cluster."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli.commands import init
from airflow_stream_provider.clusters import status_of
from airflow_stream_provider.hooks import control
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.ids import request_id
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.steps import Want
from airflow_stream_provider.spec.requested_release import RequestedRelease
from demo.environment import create_topics
from devstack.audit import count, deliveries
from devstack.drivers import wait_for
from devstack.hdfs import Hdfs
from devstack.jars import fetch, spark_connector, spark_s3a
from devstack.kafka_cluster import KafkaCluster
from devstack.processes import Processes
from devstack.producer import Producer
from devstack.s3 import LOGIN, PASSWORD, moto
from devstack.spark import Spark, bundled_spark
from tests.support.deployed import deploy
from tests.support.page_stream import PageStream
from tests.support.places import SMALL

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("hooks")]
SERVERS = "k1:9092,k2:9092,k3:9092"
CONNECTOR = "/opt/spark-kafka"


class BareSpark(Spark):
    """A cluster with nothing but Spark: what drivers need else is what a page tells them."""

    def start(self) -> None:
        super().start()
        # Where the page has it: in the workers' SPARK_CONF_DIR.
        if (site := self.folder / "hadoop" / "core-site.xml").exists():
            (self.folder / "conf").mkdir(exist_ok=True)
            shutil.copy(site, self.folder / "conf")

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, value in super().environment.items() if name != "SPARK_DIST_CLASSPATH"}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with contextlib.closing(Processes(tmp_path / "logs")) as found:
        yield found


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    """One broker for each stream: the pages have one name for all of them."""
    with KafkaCluster(tmp_path / "kafka") as brokers:
        yield brokers


@pytest.fixture
def hooks(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hooks that know no control root yet: the URL of the pages leads to another Kafka in each test."""
    monkeypatch.setattr(control, "_opened", {})
    yield
    control.close_roots()


@pytest.fixture
def connector() -> str:
    return str(fetch(spark_connector(bundled_spark())))


def test_the_stream_of_control_md_runs(
    kafka: KafkaCluster, processes: Processes, connector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "control.properties"
    own.write_text("security.protocol=PLAINTEXT\nclient.id=of-the-drivers-own-file\n")
    (tmp_path / "releases").mkdir()
    here = {
        SERVERS: kafka.servers,
        "/data": str(tmp_path),
        CONNECTOR: connector,
        "/etc/streams/control.properties": str(own),
    }
    page = PageStream("control.md", "Set it up", here)
    logs = runs(page, kafka, processes, tmp_path, monkeypatch)
    assert "clientId=of-the-drivers-own-file" in logs


def test_the_stream_on_hdfs_of_storage_md_runs(
    kafka: KafkaCluster, processes: Processes, connector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs = Hdfs(tmp_path / "hdfs", processes)
    hdfs.start()
    webhdfs = hdfs.connection
    here = {
        SERVERS: kafka.servers,
        "hdfs://namenode:8020": hdfs.url,
        "--conn-host namenode --conn-port 9870": f"--conn-host {webhdfs['host']} --conn-port {webhdfs['port']}",
        "--conn-login airflow": f"--conn-login {webhdfs['login']}",
        CONNECTOR: connector,
    }
    runs(PageStream("storage.md", "Kafka and HDFS, on standalone", here), kafka, processes, tmp_path, monkeypatch)


def test_the_stream_on_s3a_of_storage_md_runs(
    kafka: KafkaCluster, processes: Processes, connector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3").mkdir()
    with moto(tmp_path / "s3") as s3:
        here = {
            SERVERS: kafka.servers,
            "https://s3.example.org": s3.endpoint,
            "KEY": LOGIN,
            "SECRET": PASSWORD,
            CONNECTOR: connector,
            "/opt/spark-s3a": str(fetch(spark_s3a(bundled_spark()))),
        }
        runs(PageStream("storage.md", "Kafka and S3A, on standalone", here), kafka, processes, tmp_path, monkeypatch)


def runs(
    page: PageStream, kafka: KafkaCluster, processes: Processes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Deploy the stream of a page, let it hold and deliver orders, and stop it; return the drivers' logs."""
    cluster = BareSpark(folder / "spark", processes, cores=4, memory="3g", core_site=page.core_site())
    cluster.start()
    connect(page.connections(), cluster.connection, monkeypatch)
    init(Namespace(control=page.control_root(), verbose=False))
    create_topics(kafka.servers)
    spec = page.spec(folder / "dags", {**SMALL, "spark.sql.shuffle.partitions": "2", "spark.cores.max": "2"})
    hook, deployment = StreamHook.of(spec), f"{spec.name}-1-aaaa"
    hook.create()
    deploy(hook, RequestedRelease.of(spec, None, None, None, []), deployment, goal="hold")
    try:
        assert hook.submit(deployment, "me", first=True)
        with Producer(kafka.servers, "orders", 50) as producer:
            hold(hook, deployment)
            wait_for("orders in the output", lambda: len(list(deliveries(kafka.servers, "orders-enriched"))) > 200)
            produced = producer.stop()
        wait_for("all of them", lambda: len(list(deliveries(kafka.servers, "orders-enriched"))) >= produced)
        found = count(produced, deliveries(kafka.servers, "orders-enriched"))
        assert (found.lost, found.duplicated) == (0, 0), found
        assert hook.wish(Want({"wish": "stop", "goal": "stop"}), "me", hook.control_log.refresh().seq)
        ask(hook, None)
        wait_for("the stop", lambda: hook.control_log.refresh().phase is StreamPhase.STOPPED)
    finally:
        hook.kill(deployment)
        logs = "".join(path.read_text() for path in (folder / "spark" / "work").glob("driver-*/stderr"))
        print(logs[-8000:])  # shown when the test fails
    return logs


def connect(made: dict[str, dict[str, Any]], cluster: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the connections of a page, and the one to the cluster, which has the fields that the page shows of it."""
    shown = made.get("spark_default", cluster)
    assert (shown.keys(), shown["extra"].keys()) == (cluster.keys(), cluster["extra"].keys())
    for name, fields in {**made, "spark_default": cluster}.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(fields))


def hold(hook: StreamHook, deployment: str) -> None:
    """Wait until a driver stands by, and until it holds."""

    def standby() -> str | None:
        state = hook.control_log.refresh()
        found = state.deployments[deployment]
        assert not found.ended, found.reason
        assert not status_of(hook.cluster, str(found.submission)).terminal, "the driver has ended"
        return next((each.id for each in state.of_deployment(deployment)), None)

    incarnation = str(wait_for("a standby", standby, 180))
    ask(hook, incarnation)
    wait_for("it to hold", lambda: hook.control_log.refresh().holder == incarnation, 60)


def ask(hook: StreamHook, to: str | None) -> None:
    """Request that a driver holds, or a stop."""
    seq = hook.control_log.refresh().seq
    fields = {"request": request_id("test", seq), "to": to, "expires": time.time() + 120, "reason": "test"}
    assert hook.append("requested", "me", seq, **fields)
