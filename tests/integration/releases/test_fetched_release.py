"""A driver whose release lies in an object store, which nobody mounts: fetched, verified and run, executors too."""

from __future__ import annotations

import contextlib
import getpass
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.clusters import Cluster, ClusterConnection, DriverState, Job, open_cluster, status_of
from airflow_stream_provider.control import ControlLog, FilesRoot, make_root, open_log
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.lifecycle.ids import request_id
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.releases.open_place import address_of, open_place
from airflow_stream_provider.releases.place import StorageConnection
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from devstack.hdfs import Hdfs
from devstack.jars import fetch, spark_s3a
from devstack.processes import Processes
from devstack.s3 import BUCKET, LOGIN, PASSWORD, S3Server, moto
from devstack.spark import Spark, bundled_spark
from devstack.yarn import Yarn
from tests.support import releases
from tests.support.namespaces import needs_namespaces
from tests.support.places import SMALL
from tests.support.releases import connection_of, hdfs_connection
from tests.support.unmounted import without

__all__ = ["without"]

STORAGE = f"s3a://{BUCKET}/team"


@dataclass
class Fetching:
    """A stream whose control folder is here, and whose releases are on a server."""

    log: ControlLog
    url: str
    server: S3Server
    root: Path

    def publish(self, storage: str = STORAGE, connection: StorageConnection | None = None) -> Release:
        app = Path(releases.__file__).with_name("app_udf.py")
        (self.root / "helper.py").write_text("def double(number):\n    return 2 * number\n")
        arguments = [str(self.root / "out"), str(self.root / "checkpoint")]
        release, files = make_release(
            version="1",
            application=app,
            py_files=[self.root / "helper.py"],
            arguments=arguments,
            conf={**SMALL, "spark.cores.max": "1"},
        )
        # As Airflow's tasks publish it.
        if storage:
            storage = StorageAddress.parse(storage).of_log(self.url, FilesRoot(self.url).log_id("orders")).url
        release = replace(release, storage=storage)
        connection = connection or connection_of(self.server.connection)
        place = open_place(storage, connection, "orders", folder_of(self.log))
        place.publish(release, files)
        return release

    def hosts(self, deployment: str) -> set[str]:
        """Return the hosts that its driver has named so far."""
        return {host for beat in self.log.heartbeats(deployment).values() for host in beat.executor_hosts or ()}

    def declare(self, release: Release, **conf: str) -> Job:
        deployment = f"orders-1-{secrets.token_hex(4)}"
        fields = {"release": release.to_json(), "policy": Policy(rehearse_batches=0).to_json()}
        self.log.append(make_record("declared", "test", deployment=deployment, **fields), self.log.refresh().seq)
        folder = folder_of(self.log)
        job = job_of(FilesRoot(self.url), "orders", folder, deployment, release, address_of(release, "orders", folder))
        return replace(job, conf={**job.conf, **conf})

    def told(self, cluster: Cluster, submission: str, deployment: str) -> str:
        """Let the driver take over, and return what it has told of its first batch."""

        def standby() -> str | None:
            state = self.log.refresh()
            assert not state.deployments[deployment].ended, state.deployments[deployment].reason
            assert not status_of(cluster, submission).terminal, cluster.look([submission])[submission].links
            return next((each.id for each in state.of_deployment(deployment)), None)

        incarnation = wait_for("a standby", standby)
        request = {"request": request_id(deployment), "to": incarnation, "expires": time.time() + 600, "reason": "test"}
        self.log.append(make_record("requested", "test", **request), self.log.refresh().seq)
        return str(wait_for("a batch", lambda: (self.root / "out").is_file() and (self.root / "out").read_text()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with moto(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def stream(tmp_path: Path, server: S3Server) -> Fetching:
    url = f"file://{tmp_path / 'control'}"
    make_root(url)
    return Fetching(open_log(url, "orders", create=True), url, server, tmp_path)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, server: S3Server) -> Iterator[Spark]:
    folder = tmp_path_factory.mktemp("spark")
    with contextlib.closing(Processes(folder / "logs")) as processes:
        # One core each: the driver and its executor are on different workers.
        cluster = Spark(
            folder / "spark",
            processes,
            workers=2,
            cores=1,
            memory="1g",
            libraries=[spark_s3a(bundled_spark())],
            core_site=server.core_site,
        )
        cluster.start()
        yield cluster


@pytest.fixture
def standalone(spark: Spark) -> Iterator[Cluster]:
    cluster = open_cluster(ClusterConnection(spark.connection["host"], extra=spark.connection["extra"]))
    yield cluster
    for driver in spark.status().get("activedrivers", ()):
        cluster.kill(driver["id"])
    wait_for("the cluster to be idle", lambda: spark.status().get("coresused") == 0)


@pytest.mark.system  # a driver on this machine does so in `make test-integration`
def test_a_driver_on_a_standalone_cluster_fetches_its_release(
    standalone: Cluster, spark: Spark, stream: Fetching
) -> None:
    job, since = stream.declare(stream.publish()), time.time() - 60
    standalone.check(job)
    submission = standalone.submit(job)
    assert standalone.find(job.whose, since).alive == (submission,)
    doubled, helper, folder, script = stream.told(standalone, submission, job.deployment).split()
    assert doubled == "True"
    # The executor has it in its own folder, from the driver; no storage or shared folder was asked.
    assert Path(helper).parent == Path(folder)
    assert Path(folder).is_relative_to(spark.folder / "work")
    assert "app-" in folder
    assert "airflow-stream-release-" in script
    assert not (folder_of(stream.log) / "releases").exists() or not any((folder_of(stream.log) / "releases").iterdir())
    text = "".join(path.read_text(errors="replace") for path in (spark.folder / "work" / submission).glob("std*"))
    assert LOGIN in "".join(stream.server.core_site.values())
    assert PASSWORD not in text


@pytest.mark.system
def test_a_driver_fetches_its_release_from_hdfs(
    standalone: Cluster, spark: Spark, stream: Fetching, tmp_path: Path
) -> None:
    with contextlib.closing(Processes(tmp_path / "logs")) as processes:
        hdfs = Hdfs(tmp_path / "hdfs", processes)
        hdfs.start()
        # As HDFS's superuser, which the drivers are, too: who may read there is HDFS's matter.
        connection = connection_of({**hdfs_connection(hdfs), "login": getpass.getuser()})
        job = stream.declare(stream.publish(f"{hdfs.url}/team", connection))
        submission = standalone.submit(job)
        doubled, helper, folder, _ = stream.told(standalone, submission, job.deployment).split()
    assert doubled == "True"
    assert Path(helper).parent == Path(folder)
    assert Path(folder).is_relative_to(spark.folder / "work")


def test_a_release_that_was_changed_is_not_run(standalone: Cluster, spark: Spark, stream: Fetching) -> None:
    release = stream.publish()
    objects(stream.server, release).put("app_udf.py", b"raise SystemExit('it ran')\n")
    job = stream.declare(release)
    submission = standalone.submit(job)
    wait_for("the driver's end", lambda: status_of(standalone, submission).terminal)
    assert status_of(standalone, submission) is not DriverState.FINISHED
    text = "".join(path.read_text(errors="replace") for path in (spark.folder / "work" / submission).glob("std*"))
    assert f"{release.hash} are not those that were published" in text
    assert "it ran" not in text


def test_a_driver_on_this_machine_fetches_its_release(
    spark: Spark, stream: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(stream.root / "state"))
    cluster = open_cluster(ClusterConnection("local[2]"))
    job = stream.declare(stream.publish(), **{"spark.driver.extraClassPath": spark.class_path})
    submission = cluster.submit(job)
    try:
        doubled, helper, _, script = stream.told(cluster, submission, job.deployment).split()
        assert (doubled, Path(helper).name) == ("True", "helper.py")
        assert "airflow-stream-release-" in script
    finally:
        cluster.kill(submission)


@needs_namespaces
def test_a_driver_that_does_not_mount_the_control_folder_says_so_though_it_has_its_release(
    spark: Spark, stream: Fetching, monkeypatch: pytest.MonkeyPatch, without: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(stream.root / "state"))
    cluster = open_cluster(ClusterConnection("local[2]"))
    job = stream.declare(stream.publish(), **{"spark.driver.extraClassPath": spark.class_path})
    control = stream.root / "control"
    without(control)
    submission = cluster.submit(job)
    wait_for("the driver's end", lambda: status_of(cluster, submission).terminal)
    assert status_of(cluster, submission) is DriverState.FAILED
    assert f"{control} is not a control root: it has no file .control-root. Mount" in cluster.log_tail(submission)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory, server: S3Server) -> Iterator[Yarn]:
    folder = tmp_path_factory.mktemp("yarn")
    with contextlib.closing(Processes(folder / "logs")) as processes:
        # A quarter of a second by default, in which no driver reaches its batch boundary.
        patient = {"yarn.nodemanager.sleep-delay-before-sigkill.ms": "120000"}
        running = Yarn(folder / "yarn", processes, settings=patient, core_site=server.core_site)
        running.start()
        yield running


@pytest.mark.system
@pytest.mark.parametrize("storage", [STORAGE, "hdfs", ""], ids=["s3a", "hdfs", "shared folder"])
def test_a_driver_on_yarn_runs_its_release_and_is_known_by_its_id(yarn: Yarn, stream: Fetching, storage: str) -> None:
    fields = yarn.connection
    named = {"worker_hosts": "localhost,127.0.0.1"}
    cluster = open_cluster(ClusterConnection("yarn", extra={**fields["extra"], **named}, login=fields["login"]))
    jars = f"{fetch(spark_s3a(bundled_spark()))}/*"
    conf = {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars, "spark.executor.instances": "1"}
    with contextlib.ExitStack() as within:
        connection = None
        if storage == "hdfs":
            processes = within.enter_context(contextlib.closing(Processes(stream.root / "logs")))
            hdfs = Hdfs(stream.root / "hdfs", processes)
            hdfs.start()
            storage = f"{hdfs.url}/team"
            connection = connection_of({**hdfs_connection(hdfs), "login": getpass.getuser()})
        job = stream.declare(stream.publish(storage, connection), **conf)
        job = replace(job, log=stream.log.store.origin())
        cluster.check(job)
        submission = cluster.submit(job)
        doubled, helper, folder, script = stream.told(cluster, submission, job.deployment).split()
        assert doubled == "True"
        assert Path(helper).parent == Path(folder)
        assert Path(folder).is_relative_to(yarn.folder)
        assert "airflow-stream-release-" in script
        assert cluster.find(job.whose, 0.0).alive == (submission,)

        (beat,) = stream.log.heartbeats(job.deployment).values()
        assert (beat.submission, beat.application_id) == (submission, submission)
        hosts = wait_for("the hosts of its executors", lambda: stream.hosts(job.deployment))
        assert hosts == {"localhost"}, "as YARN names its nodes"
        # SIGTERM reaches all processes of the container; Python goes on, and the JVM's hook releases the stream.
        cluster.kill(submission)
        wait_for("it to be gone", lambda: cluster.remains(submission, job.whose, (), {"localhost"}).gone)
    assert [record.kind for record in stream.log.records()][-1] == "released"
    assert status_of(cluster, submission) is DriverState.KILLED


def objects(server: S3Server, release: Release) -> Any:
    """The objects of a release, past the product."""
    from obstore.store import S3Store

    fields: dict[str, Any] = {"access_key_id": LOGIN, "secret_access_key": PASSWORD, "region": "us-east-1"}
    fields |= {"endpoint": server.endpoint, "client_options": {"allow_http": True}}
    prefix = address_of(release, "orders", None).removeprefix(f"s3a://{BUCKET}/")
    return S3Store(BUCKET, prefix=prefix, **fields)
