"""What a driver on this machine is started with, and what it is not given."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import processes
from airflow_stream_provider.clusters import processes as local_spark
from airflow_stream_provider.clusters.local import LocalCluster
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.jobs import job


def test_a_driver_gets_little_of_airflows_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The rest may hold the passwords of Airflow's database and connections."""
    for name in ("AIRFLOW_CONN_KAFKA", "AWS_SECRET_ACCESS_KEY", "PATHS", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AIRFLOW_CONN_KAFKA", "AWS_SECRET_ACCESS_KEY", "PATHS", "LC_ALL", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "x")
    found = local_spark.environment(tmp_path, tmp_path / "d", {"REGION": "eu"})
    assert {"AIRFLOW_CONN_KAFKA", "AWS_SECRET_ACCESS_KEY", "PATHS"}.isdisjoint(found)
    assert (found["LC_ALL"], found["SPARK_LOCAL_IP"], found["REGION"]) == ("x", "x", "eu")
    assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert (found["SPARK_HOME"], found[processes.MARK]) == (str(tmp_path), str(tmp_path / "d"))


def test_spark_is_that_of_the_machine_where_pyspark_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match="Spark is not installed on this machine"):
        local_spark.home()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    assert local_spark.home() == tmp_path


def test_a_machine_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ClusterError, match=f"There is no Java in JAVA_HOME, {tmp_path}"):
        local_spark.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ClusterError, match="There is no `java` on this machine's PATH"):
        local_spark.check_java()


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ({"pyspark": "4.3.0", "pyspark-client": "4.2.0"}, True),
        ({"pyspark": "4.2.0", "pyspark-client": "4.2.0"}, False),
        ({"pyspark-client": "4.2.0"}, False),
        ({"pyspark": "3.5.7"}, False),
    ],
)
def test_a_mix_of_pyspark_and_its_client_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, installed: dict[str, str], said: bool
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(local_spark, "home", lambda: Path())
    monkeypatch.setattr(local_spark, "check_java", lambda: None)
    LocalCluster("local[1]").check(job(conf={"spark.driver.memory": "1m"}))
    assert ("pyspark 4.3.0 and pyspark-client 4.2.0 are installed" in caplog.text) is said
    assert ("pip install pyspark==4.2.0 pyspark-client==4.2.0" in caplog.text) is said
