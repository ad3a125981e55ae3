from __future__ import annotations

import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from airflow_stream_provider.clusters.connection import Masters
from airflow_stream_provider.clusters.local import LocalCluster
from airflow_stream_provider.clusters.standalone import StandaloneCluster
from airflow_stream_provider.lifecycle.errors import SpecError


@pytest.mark.parametrize(
    ("connection", "masters"),
    [
        (
            ClusterConnection("spark://one"),
            Masters("spark://one:7077", ("http://one:6066",), ("http://one:8080",)),
        ),
        (
            # As Airflow reads the URI spark://one:7000.
            ClusterConnection("one", 7000),
            Masters("spark://one:7000", ("http://one:6066",), ("http://one:8080",)),
        ),
        (
            ClusterConnection("spark://one:7078,two", 7000, {"rest_port": "6067"}),
            Masters(
                "spark://one:7078,two:7000",
                ("http://one:6067", "http://two:6067"),
                ("http://one:8080", "http://two:8080"),
            ),
        ),
        (
            ClusterConnection("spark://one/", None, {"rest_url": "https://rest/", "master_ui": "http://ui:8081/spark"}),
            Masters("spark://one:7077", ("https://rest",), ("http://ui:8081/spark",)),
        ),
        (
            ClusterConnection("spark://[::1]:7077"),
            Masters("spark://[::1]:7077", ("http://[::1]:6066",), ("http://[::1]:8080",)),
        ),
    ],
)
def test_addresses_are_read_from_the_connection(connection: ClusterConnection, masters: Masters) -> None:
    assert connection.masters == masters
    assert isinstance(open_cluster(connection), StandaloneCluster)


@pytest.mark.parametrize("host", ["local", "local[2]", "local[*]"])
def test_local_masters(host: str) -> None:
    assert ClusterConnection(host).local_master == host
    assert isinstance(open_cluster(ClusterConnection(host)), LocalCluster)


@pytest.mark.parametrize(
    ("connection", "named"),
    [
        (ClusterConnection(""), "''"),
        (ClusterConnection("yarn"), "login ''"),
        (ClusterConnection(" YARN "), "login ''"),
        (ClusterConnection("mesos://host"), "'mesos://host'"),
        (ClusterConnection("spark://one,,two"), "''"),
        (ClusterConnection("spark://one:port"), "'one:port'"),
        (ClusterConnection("spark://user:pw@one"), "'one'"),
        (ClusterConnection("spark://one/path"), "'one/path'"),
        (ClusterConnection("local[two]"), "'local[two]'"),
        (ClusterConnection("spark://one", None, {"rest_port": "many"}), "rest_port"),
        (ClusterConnection("spark://one", None, {"rest_port": 70000}), "rest_port"),
        (ClusterConnection("spark://one", None, {"rest_url": "one:6066"}), "rest_url"),
        (ClusterConnection("spark://one,two", None, {"master_ui": "http://one:8080"}), "master_ui"),
        (ClusterConnection("spark://one", None, {"master_ui": "http://u:pw@one:8080"}), "master_ui"),
        (ClusterConnection("spark://one", None, {"rest_url": "https://pw@one:8080"}), "rest_url"),
        (ClusterConnection("spark://one", None, {"rest_url": "http://one:port"}), "rest_url"),
        (ClusterConnection("spark://one", None, {"worker_hosts": "http://one"}), "worker_hosts"),
        (ClusterConnection("spark://one", password="pw with\nlines"), "bearer token"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_in_one_sentence(connection: ClusterConnection, named: str) -> None:
    with pytest.raises(SpecError) as refused:
        open_cluster(connection)
    assert named in refused.value.message
    assert refused.value.next_step
    assert "pw" not in str(refused.value)


def test_nothing_secret_is_shown() -> None:
    connection = ClusterConnection("spark://one", None, {"token": "hunter2"}, "user", "hunter2")
    assert "hunter2" not in repr(connection) + repr(connection.masters)
    assert connection.masters.authorization
