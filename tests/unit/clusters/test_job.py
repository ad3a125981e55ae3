from __future__ import annotations

import pytest

from airflow_stream_provider.clusters import ClusterConnection, Job, SecretInConf, open_cluster
from airflow_stream_provider.clusters.job import names_deployment
from airflow_stream_provider.clusters.rest_properties import create_submission_request

ARGUMENTS = (
    "--control",
    "file:///data/streams",
    "--stream",
    "orders",
    "--deployment",
    "orders-2-1a2b",
    "--",
    "app.py",
    "x y",
)


def job(**changes: object) -> Job:
    fields: dict[str, object] = {
        "stream": "orders",
        "deployment": "orders-2-1a2b",
        "app_name": "orders 2 [orders-2-1a2b]",
        "release_dir": "/data/streams/orders/releases/abc",
        "arguments": ARGUMENTS,
        "py_files": ("helpers.py",),
    }
    return Job(**{**fields, **changes})  # type: ignore[arg-type]


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
            "spark.driver.supervise": "false",
            "spark.cores.max": "2",
            "spark.executor.memory": "2g",
            "spark.submit.pyFiles": files,
            "spark.files": f"{files},/data/lookup.csv",
        },
    }


def test_the_conf_bounds_cores_but_cannot_send_the_driver_elsewhere() -> None:
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


@pytest.mark.parametrize("host", ["spark://127.0.0.1:1", "local[2]"])
def test_every_cluster_refuses_a_secret_in_the_conf_before_it_asks_or_starts_anything(host: str) -> None:
    cluster = open_cluster(ClusterConnection(host))
    for use in (cluster.check, cluster.submit):
        with pytest.raises(SecretInConf, match="environment") as refused:
            use(job(conf={"spark.ssl.keyPassword": "hunter2"}))
        assert "hunter2" not in str(refused.value)


def test_a_job_that_could_not_be_found_again_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="app_name"):
        job(app_name="orders 2")
    with pytest.raises(ValueError, match="--deployment"):
        job(arguments=("--stream", "orders", "--", "app.py", "--deployment", "orders-2-1a2b"))


def test_a_deployment_is_named_by_the_exact_argument_of_the_launcher() -> None:
    assert names_deployment(ARGUMENTS, "orders-2-1a2b")
    assert not names_deployment(ARGUMENTS, "orders-2-1a2")
    assert not names_deployment(("--deployment",), "orders-2-1a2b")
    assert not names_deployment(("--", "--deployment", "orders-2-1a2b"), "orders-2-1a2b")
