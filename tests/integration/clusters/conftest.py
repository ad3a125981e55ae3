"""One cluster of each kind for the tests of this folder, and a fixture that runs a test on each of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from devstack.drivers import wait_for
from devstack.kubernetes import TOKEN, StandIn, standin
from devstack.stack import LocalStack
from tests.support import real_kubernetes as real
from tests.support.places import Place


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("stack"), kafka=False, worker_cores=4, worker_memory="3g") as started:
        yield started


@pytest.fixture
def standalone(stack: LocalStack, tmp_path: Path) -> Iterator[Place]:
    spark = stack.spark
    connection = ClusterConnection(
        f"spark://{spark.host}", spark.port, {"rest_port": spark.rest_port, "master_ui": spark.ui_url}
    )
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
    """A real cluster; docs/clusters.md says what it needs."""
    if real.missing():
        pytest.skip(f"no real Kubernetes: {', '.join(real.missing())} not set (docs/clusters.md)")
    connection = real.connection()
    folder = real.root() / secrets.token_hex(4)
    folder.mkdir()
    conf = {"spark.executor.instances": "1"}
    place = Place(open_cluster(connection), connection, folder, conf, on_this_machine=False)
    yield place
    remove_all(place, monkeypatch)


def remove_all(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the drivers of a test, and remove their pods, as if their ends were in a log."""
    monkeypatch.setattr("airflow_stream_provider.clusters.kubernetes.KEPT_SECONDS", -3600.0)
    for job in place.jobs:
        found = place.cluster.find(job.whose, 0)
        for submission in (*found.alive, *found.ended):
            place.end(submission, job)
    place.cluster.forget([job.whose for job in place.jobs])


@pytest.fixture(
    params=[
        "standalone",
        "here",
        pytest.param("standin_kubernetes", marks=pytest.mark.system),
        pytest.param("real_kubernetes", marks=pytest.mark.system),
    ]
)
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found
