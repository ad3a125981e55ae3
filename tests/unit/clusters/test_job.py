"""The description of a driver to start."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters import ClusterConnection, SecretInConf, open_cluster
from tests.support.jobs import job


@pytest.mark.parametrize("host", ["spark://127.0.0.1:1", "local[2]"])
def test_every_cluster_refuses_a_secret_in_the_conf_before_it_does_anything(host: str) -> None:
    cluster = open_cluster(ClusterConnection(host))
    for use in (cluster.check, cluster.submit):
        with pytest.raises(SecretInConf, match="environment") as refused:
            use(job(conf={"spark.ssl.keyPassword": "hunter2"}))
        assert "hunter2" not in str(refused.value)


def test_a_job_must_name_its_deployment_in_application_name_and_arguments() -> None:
    with pytest.raises(ValueError, match="app_name"):
        job(app_name="orders 2")
    with pytest.raises(ValueError, match="--deployment"):
        job(arguments=("--stream", "orders", "--", "app.py", "--deployment", "orders-2-1a2b"))


def test_clients_of_hdfs_close_files_sooner_unless_the_conf_says_otherwise() -> None:
    delay = "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms"
    assert job().properties()[delay] == "10"
    assert job(conf={delay: "400"}).properties()[delay] == "400"


def test_whose_a_driver_is_stands_in_its_conf_which_the_stream_cannot_change() -> None:
    own = {"spark.airflow.stream.log": "mine", "spark.airflow.stream.deployment": "mine"}
    said = job(log="0a" * 16, conf=own).properties()
    assert said["spark.airflow.stream.log"] == "0a" * 16
    assert said["spark.airflow.stream.deployment"] == "orders-2-1a2b"
    assert job(log="0a" * 16).whose.log == "0a" * 16
    assert "spark.airflow.stream.log" not in job(conf=own).properties(), "it is not known"
