"""One cluster of each kind for the tests of this folder, and a fixture that runs a test on each of them."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from devstack.drivers import wait_for
from devstack.kubernetes import TOKEN, StandIn, standin
from devstack.processes import Processes
from devstack.stack import LocalStack
from devstack.yarn import Yarn
from tests.support import own_cluster
from tests.support import real_kubernetes as kubernetes_of_yours
from tests.support import real_yarn as yarn_of_yours
from tests.support.places import Place, clusters

ONE_EXECUTOR = {"spark.executor.instances": "1"}


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("stack"), kafka=False, worker_cores=4, worker_memory="3g") as started:
        yield started


@pytest.fixture
def standalone(stack: LocalStack, tmp_path: Path) -> Iterator[Place]:
    spark = stack.spark
    connection = ClusterConnection(spark.connection["host"], extra=spark.connection["extra"])
    place = Place(open_cluster(connection), connection, tmp_path)
    yield place
    # Drivers of one test must not use the cores of the next.
    for driver in spark.status().get("activedrivers", ()):
        place.cluster.kill(driver["id"])
    wait_for("the cluster to be idle", lambda: spark.status().get("coresused") == 0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    connection = ClusterConnection("local[2]")
    place = Place(open_cluster(connection), connection, tmp_path)
    yield place
    for folder in (tmp_path / "orders" / "drivers").glob("*"):
        place.cluster.kill(str(folder))


@pytest.fixture
def from_the_docs(tmp_path: Path) -> Iterator[Place]:
    """The cluster of docs/examples/own_cluster.py."""
    connection = own_cluster.connection(tmp_path)
    cluster = own_cluster.open_cluster(connection)
    place = Place(cluster, connection, tmp_path, launcher="app_alone.py", opener=own_cluster.__name__)
    yield place
    for job in place.jobs:
        for submission in cluster.find(job.whose, 0).alive:
            place.end(submission, job)


@pytest.fixture(scope="package")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    folder = tmp_path_factory.mktemp("yarn")
    with contextlib.closing(Processes(folder / "logs")) as processes:
        # By default the ResourceManager gives up a node after ten minutes.
        started = Yarn(folder / "yarn", processes, settings={"yarn.nm.liveness-monitor.expiry-interval-ms": "20000"})
        started.start()
        yield started


@pytest.fixture
def on_yarn(yarn: Yarn, tmp_path: Path) -> Iterator[Place]:
    fields = yarn.connection
    connection = ClusterConnection("yarn", extra=fields["extra"], login=fields["login"])
    place = Place(open_cluster(connection), connection, tmp_path, conf=ONE_EXECUTOR, needs_session=True)
    yield place
    # Drivers of one test must not use the memory of the next.
    live = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
    for app in (yarn.ask(f"apps?states={live}").get("apps") or {}).get("app", ()):
        place.cluster.kill(app["id"])
    wait_for("YARN to be idle", lambda: yarn.ask("metrics")["clusterMetrics"]["containersAllocated"] == 0)


@pytest.fixture
def real_yarn() -> Iterator[Place]:
    """A YARN that is not ours; docs/own_cluster.md says what it needs."""
    if yarn_of_yours.missing():
        pytest.skip(f"no real YARN: {', '.join(yarn_of_yours.missing())} not set (docs/own_cluster.md)")
    connection = yarn_of_yours.connection()
    folder = yarn_of_yours.root() / secrets.token_hex(4)
    folder.mkdir()
    cluster = open_cluster(connection)
    yield Place(cluster, connection, folder, conf=ONE_EXECUTOR, needs_session=True, on_this_machine=False)
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with standin(tmp_path_factory.mktemp("kubernetes")) as started:
        yield started


@pytest.fixture
def standin_kubernetes(kubernetes: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    connection = ClusterConnection(f"k8s://{kubernetes.address}", None, kubernetes.extra, password=TOKEN)
    # Pods are processes of this machine, and find the API server where we do.
    conf = {"spark.kubernetes.driver.master": kubernetes.address, "spark.executor.instances": "1"}
    place = Place(open_cluster(connection), connection, tmp_path, conf)
    yield place
    remove_all(place, monkeypatch)


@pytest.fixture
def real_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A Kubernetes that is not ours; docs/own_cluster.md says what it needs."""
    if kubernetes_of_yours.missing():
        pytest.skip(f"no real Kubernetes: {', '.join(kubernetes_of_yours.missing())} not set (docs/own_cluster.md)")
    connection = kubernetes_of_yours.connection()
    folder = kubernetes_of_yours.root() / secrets.token_hex(4)
    folder.mkdir()
    conf = {"spark.executor.instances": "1"}
    place = Place(open_cluster(connection), connection, folder, conf, on_this_machine=False)
    yield place
    remove_all(place, monkeypatch)


def remove_all(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the drivers of a test, and remove their pods, as if their ends were in a log."""
    monkeypatch.setattr("airflow_stream_provider.clusters.pod_status.KEPT_SECONDS", -3600.0)
    for job in place.jobs:
        found = place.cluster.find(job.whose, 0)
        for submission in (*found.alive, *found.ended):
            place.end(submission, job)
    place.cluster.forget([job.whose for job in place.jobs])


@pytest.fixture(params=clusters())
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found
