"""A stream whose drivers are pods: Spark's driver and executors under the launcher, handed over once, and cleaned up.

On the stand-in: Spark, the product and the client of Airflow's provider are real, Kubernetes is not.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from airflow_stream_provider.clusters import (
    Cluster,
    ClusterConnection,
    DriverState,
    Whose,
    open_cluster,
    pod_status,
    status_of,
)
from airflow_stream_provider.clusters.driver_pod import FINALIZER
from airflow_stream_provider.control import ControlLog, FilesRoot, make_root, open_log
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.hooks.drivers import driver_facts
from airflow_stream_provider.hooks.submit import job_of, submit_once
from airflow_stream_provider.lifecycle.ids import request_id
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.planning.retire import settled
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.open_place import address_of, open_place
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from devstack.jars import fetch, spark_s3a
from devstack.kubernetes import TOKEN, StandIn, standin
from devstack.s3 import BUCKET, S3Server, moto
from devstack.spark import bundled_spark
from tests.support import orders_files
from tests.support.orders_files import Orders
from tests.support.places import SMALL
from tests.support.releases import connection_of

pytestmark = pytest.mark.system


class Stream:
    """The stream `orders` on files, and what a task does for it."""

    def __init__(self, server: StandIn, root: Path, s3: S3Server | None = None) -> None:
        self.url = f"file://{root / 'control'}"
        make_root(self.url)
        self.log: ControlLog = open_log(self.url, "orders", create=True)
        self.server = server
        self.root = root
        self.s3 = s3
        connection = ClusterConnection(f"k8s://{server.address}", None, server.extra, password=TOKEN)
        self.cluster: Cluster = open_cluster(connection)

    def submit(self, version: str) -> str:
        """Publish and declare a release, submit it twice, as tasks do that are retried, and return its incarnation."""
        folder = folder_of(self.log)
        release, files = make_release(
            version=version,
            application=Path(orders_files.__file__).with_name("app_orders_files.py"),
            arguments=[str(self.root)],
            conf={
                **SMALL,
                "spark.executor.instances": "1",
                "spark.sql.shuffle.partitions": "1",
                "spark.kubernetes.driver.master": self.server.address,
            },
        )
        if self.s3 is not None:
            storage = StorageAddress.parse(f"s3a://{BUCKET}/team").of_log(
                self.url, FilesRoot(self.url).log_id("orders")
            )
            release = replace(release, storage=storage.url)
        connection = connection_of(self.s3.connection) if self.s3 is not None else None
        open_place(release.storage, connection, "orders", folder).publish(release, files)
        deployment = f"orders-{version}-{secrets.token_hex(4)}"
        fields = {
            "release": release.to_json(),
            "policy": Policy(rehearse_batches=0, rehearse_seconds=900, lease_seconds=120).to_json(),
        }
        self.append("declared", deployment=deployment, **fields)
        where, log = address_of(release, "orders", folder), self.log.store.origin()
        job = job_of(FilesRoot(self.url), "orders", folder, deployment, release, where, log=log)
        self.cluster.check(job)
        self.cluster.submit(job)  # by a task that was killed before it could write that down
        assert submit_once(self.log, self.cluster, job, "test", first=False, verify=lambda: None)
        submission = self.log.refresh().deployments[deployment].submission

        def standby() -> str | None:
            state = self.log.refresh()
            name = submission.partition("/")[2]
            assert not state.deployments[deployment].ended, self.server.log(name)[-3000:]
            assert not status_of(self.cluster, submission).terminal, self.server.log(name)[-3000:]
            return next((each.id for each in state.of_deployment(deployment)), None)

        return str(wait_for(f"release {version} to stand by", standby))

    def appoint(self, incarnation: str) -> None:
        """Ask for a hand-over to an incarnation, and wait until it holds."""
        self.append(
            "requested", request=request_id(incarnation), to=incarnation, expires=time.time() + 900, reason="test"
        )
        wait_for(f"{incarnation} to hold", lambda: self.log.refresh().holder == incarnation)

    def append(self, kind: str, **fields: object) -> None:
        self.log.propose(lambda state: make_record(kind, "test", **fields))

    def whose(self, deployment: str) -> Whose:
        return Whose(deployment, self.log.store.origin())


def test_a_stream_on_pods_is_handed_over_and_its_old_pod_is_forgotten(
    kubernetes: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, stream = Orders(tmp_path), Stream(kubernetes, tmp_path)
    orders.write()
    old = stream.submit("1")
    beat = stream.log.heartbeat(old)
    assert beat is not None
    drivers = stream.log.state.deployments
    first = old.rpartition(".")[0]
    assert beat.submission == drivers[first].submission, "the driver knows its pod"
    stream.appoint(old)
    orders.flow(2.0)
    orders.go_on("the first release to work", 10)
    executors = kubernetes.pods("spark-role=executor")
    assert [pod["metadata"]["ownerReferences"][0]["name"] for pod in executors] == [
        drivers[first].submission.partition("/")[2]
    ]

    new = stream.submit("2")
    stream.appoint(new)
    orders.go_on("the second release to work", 10)
    assert status_of(stream.cluster, drivers[first].submission) is DriverState.RUNNING, "it stays for a roll-back"

    stream.append("retired", deployment=first, reason="test")
    submission = stream.log.refresh().deployments[first].submission

    def gone() -> bool:
        facts = driver_facts(stream.log, stream.cluster, stream.whose(first))
        return facts is not None and facts.gone

    wait_for("the old driver and its executors to be gone", gone)
    assert status_of(stream.cluster, submission) is DriverState.FINISHED
    (pod,) = (each for each in kubernetes.pods("spark-role=driver") if submission.endswith(each["metadata"]["name"]))
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    monkeypatch.setattr(pod_status, "KEPT_SECONDS", -10.0)
    over = settled(stream.log.refresh())
    assert over == (first,)
    stream.cluster.forget([stream.whose(each) for each in over])
    assert status_of(stream.cluster, submission) is DriverState.LOST

    orders.go_on("the second release to work on", 10)
    orders.dry()
    orders.check()
    # A person deletes the holder's pod: SIGTERM within its grace, so that it stops at a batch boundary and releases.
    second = new.rpartition(".")[0]
    name = stream.log.state.deployments[second].submission.partition("/")[2]
    kubernetes.ask("DELETE", f"namespaces/streams/pods/{name}")
    wait_for("the release", lambda: stream.log.refresh().holder is None)
    assert stream.log.records()[-1].kind == "released"
    assert stream.log.records()[-1].get("boundary") == "completed"

    def all_gone() -> bool:
        return stream.cluster.remains(f"streams/{name}", stream.whose(second)).gone

    # Executors are not collected before the finalizer goes.
    stream.cluster.kill(f"streams/{name}")
    wait_for("nothing to be left", all_gone)
    orders.check()


def test_a_driver_in_a_pod_fetches_its_release_by_its_url(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    jars = fetch(spark_s3a(bundled_spark()))
    with moto(tmp_path / "s3") as s3:
        properties = (
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in s3.core_site.items()
        )
        (tmp_path / "conf" / "core-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
        image = {"SPARK_DIST_CLASSPATH": f"{jars}/*", "SPARK_CONF_DIR": str(tmp_path / "conf")}
        with standin(tmp_path / "pods", image) as server:
            orders, stream = Orders(tmp_path), Stream(server, tmp_path, s3)
            orders.write()
            incarnation = stream.submit("1")
            stream.appoint(incarnation)
            orders.check()
            folder = folder_of(stream.log) / "releases"
            assert not folder.exists() or not any(folder.iterdir())
            submission = stream.log.state.deployments[incarnation.rpartition(".")[0]].submission
            assert s3.password not in server.log(submission.partition("/")[2])
