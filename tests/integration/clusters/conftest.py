"""One standalone cluster for all tests of this folder, and a fixture that runs a test on it and on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from tests.support.places import Place


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


@pytest.fixture(params=["standalone", "here"])
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found
