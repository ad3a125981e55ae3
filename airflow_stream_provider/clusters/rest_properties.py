"""The request that submits a job to a standalone master's REST API.

`spark-submit` refuses Python applications in cluster mode on a standalone cluster. The REST submission API runs any
main class on a worker. `org.apache.spark.deploy.PythonRunner` is the class with which spark-submit itself starts
Python drivers. It takes local files only. `SparkSubmit` itself, in client mode on the worker, downloads a launcher that
is given by URL, and goes on with `PythonRunner` in the same process.
"""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.clusters.capacity import DEFAULT_CORES_MAX
from airflow_stream_provider.clusters.job import Job

MAIN_CLASS = "org.apache.spark.deploy.PythonRunner"
FETCHING_CLASS = "org.apache.spark.deploy.SparkSubmit"


def create_submission_request(job: Job, master_url: str) -> dict[str, Any]:
    """Return the body of a ``CreateSubmissionRequest``.

    :param master_url: Spark's master URL, such as ``spark://host:7077``.

    :raises SecretInConf: the job's conf holds a secret.
    """
    conf = driver_conf(job, master_url)
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.0.0",  # required, but without effect
        "appResource": "",
        "mainClass": FETCHING_CLASS if job.is_fetched else MAIN_CLASS,
        "appArgs": _submit_arguments(job, conf) if job.is_fetched else _runner_arguments(job, conf),
        "sparkProperties": conf,
        "environmentVariables": dict(job.environment),
    }


def _runner_arguments(job: Job, conf: dict[str, str]) -> list[str]:
    """Return the arguments of PythonRunner: script, Python path, arguments of the script."""
    return [job.launcher, conf["spark.submit.pyFiles"], *job.arguments]


def _submit_arguments(job: Job, conf: dict[str, str]) -> list[str]:
    """Return the arguments of SparkSubmit, as a person would give them to spark-submit on the worker.

    It also reads the worker's spark-defaults.conf: without ``--conf`` that would replace the job's own settings.
    """
    settings = {**conf, "spark.submit.deployMode": "client"}
    words = [word for key, value in settings.items() if value for word in ("--conf", f"{key}={value}")]
    return ["--master", conf["spark.master"], "--deploy-mode", "client", *words, job.launcher, *job.arguments]


def driver_conf(job: Job, master_url: str) -> dict[str, str]:
    """Return the Spark conf of a driver in cluster mode.

    It is the job's conf, with master, deploy mode and Python files set. Defaults: spark.cores.max is
    `DEFAULT_CORES_MAX`, and the master does not restart the driver (spark.driver.supervise=false).

    :raises SecretInConf: the job's conf holds a secret.
    """
    conf = {"spark.driver.supervise": "false", "spark.cores.max": str(DEFAULT_CORES_MAX), **job.properties()}
    files = ",".join(job.files)
    return {
        **conf,
        "spark.master": master_url,
        "spark.submit.deployMode": "cluster",
        # As spark-submit does for --py-files: the driver puts them on its Python path, and executors fetch them.
        "spark.submit.pyFiles": ",".join(filter(None, [files, conf.get("spark.submit.pyFiles", "")])),
        "spark.files": ",".join(filter(None, [files, conf.get("spark.files", "")])),
    }
