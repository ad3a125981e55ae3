"""The request that submits a job to a standalone master."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters import ClusterConnection, Job, SecretInConf
from airflow_stream_provider.clusters.master_api import create_submission_request, driver_conf
from airflow_stream_provider.clusters.spark_defaults import When, defaults
from tests.support.jobs import ARGUMENTS, job


def request_of(asked: Job) -> dict[str, object]:
    return create_submission_request(asked, ClusterConnection("spark://one,two").masters.url)


def test_the_request_runs_the_launcher_by_python_runner() -> None:
    request = request_of(job(conf={"spark.executor.memory": "2g", "spark.files": "/data/lookup.csv"}))
    folder = "/data/streams/orders/releases/abc"
    files = f"{folder}/airflow_stream_runtime.zip,{folder}/helpers.py"
    assert request == {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.0.0",
        "appResource": "",
        "mainClass": "org.apache.spark.deploy.PythonRunner",
        "appArgs": [f"{folder}/launcher.py", files, *ARGUMENTS],
        "environmentVariables": {},
        "sparkProperties": {
            "spark.app.name": "orders 2 [orders-2-1a2b]",
            "spark.airflow.stream.deployment": "orders-2-1a2b",
            "spark.master": "spark://one:7077,two:7077",
            "spark.submit.deployMode": "cluster",
            **defaults({}, When.STANDALONE),
            "spark.executor.memory": "2g",
            "spark.submit.pyFiles": files,
            "spark.files": f"{files},/data/lookup.csv",
        },
    }


def test_a_release_that_is_fetched_runs_by_spark_submit() -> None:
    """Nothing of it is a file of the worker: Spark fetches the launcher, and the launcher the rest."""
    conf = {"spark.executor.memory": "2g", "spark.files": "s3a://b/lookup.csv"}
    request = request_of(job(release_dir="s3a://b/orders/releases/abc", conf=conf))
    assert request["mainClass"] == "org.apache.spark.deploy.SparkSubmit"
    words = request["appArgs"]
    assert isinstance(words, list)
    assert words[:4] == ["--master", "spark://one:7077,two:7077", "--deploy-mode", "client"]
    assert words[-len(ARGUMENTS) - 1 :] == ["s3a://b/orders/releases/abc/launcher.py", *ARGUMENTS]
    settings = words[4 : -len(ARGUMENTS) - 1]
    # Without them the worker's spark-defaults.conf would count.
    assert set(settings[::2]) == {"--conf"}
    assert "spark.executor.memory=2g" in settings
    assert "spark.files=s3a://b/lookup.csv" in settings
    assert "spark.app.name=orders 2 [orders-2-1a2b]" in settings
    assert "airflow_stream_runtime.zip" not in str(words)


def test_the_conf_may_set_cores_but_neither_master_nor_application_name() -> None:
    conf = {
        "spark.cores.max": "6",
        "spark.master": "local[*]",
        "spark.app.name": "mine",
        "spark.driver.supervise": "true",
    }
    properties = request_of(job(conf=conf))["sparkProperties"]
    assert isinstance(properties, dict)
    assert properties["spark.cores.max"] == "6"
    assert properties["spark.driver.supervise"] == "true"
    assert properties["spark.master"] == "spark://one:7077,two:7077"
    assert properties["spark.app.name"] == "orders 2 [orders-2-1a2b]"


def test_py_files_and_files_of_the_conf_follow_those_of_the_release() -> None:
    conf = driver_conf(
        job(py_files=(), conf={"spark.submit.pyFiles": "/a.py,/b.zip", "spark.files": "/c.csv"}), "spark://one:7077"
    )
    runtime = "/data/streams/orders/releases/abc/airflow_stream_runtime.zip"
    assert conf["spark.submit.pyFiles"] == f"{runtime},/a.py,/b.zip"
    assert conf["spark.files"] == f"{runtime},/c.csv"


def test_a_secret_in_the_conf_is_never_part_of_a_request() -> None:
    with pytest.raises(SecretInConf):
        create_submission_request(job(conf={"spark.ssl.keyPassword": "hunter2"}), "spark://one:7077")


def test_the_environment_reaches_driver_and_executors_and_holds_no_secret() -> None:
    request = request_of(job(environment={"REGION": "eu"}, conf={"spark.executorEnv.ZONE": "a"}))
    assert request["environmentVariables"] == {"REGION": "eu"}
    properties = request["sparkProperties"]
    assert isinstance(properties, dict)
    assert {k: v for k, v in properties.items() if "Env" in k} == {
        "spark.executorEnv.REGION": "eu",
        "spark.executorEnv.ZONE": "a",
    }
    with pytest.raises(SecretInConf):
        create_submission_request(job(environment={"DB_PASSWORD": "hunter2"}), "spark://one:7077")
