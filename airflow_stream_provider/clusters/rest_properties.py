"""What is posted to a standalone master to run a job.

`spark-submit` refuses Python applications in cluster mode here, but the REST submission API runs any main class on a
worker, and `org.apache.spark.deploy.PythonRunner` is the one that spark-submit itself starts Python drivers with.
"""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.clusters.capacity import DEFAULT_CORES_MAX
from airflow_stream_provider.clusters.job import Job

MAIN_CLASS = "org.apache.spark.deploy.PythonRunner"


def submission(job: Job, master_url: str) -> dict[str, Any]:
    """Return the body of a `CreateSubmissionRequest`.

    :raises SecretInConf: the job's conf holds a secret.
    """
    conf = properties(job, master_url)
    return {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": "4.0.0",  # must be there; nothing depends on it
        "appResource": "",
        "mainClass": MAIN_CLASS,
        # PythonRunner's own: the script, what goes on its Python path, the script's arguments.
        "appArgs": [job.launcher, conf["spark.submit.pyFiles"], *job.arguments],
        "sparkProperties": conf,
        "environmentVariables": {},
    }


def properties(job: Job, master_url: str) -> dict[str, str]:
    """Return the Spark conf of a driver in cluster mode: the job's own, bounded, and what identifies and places it."""
    conf = {"spark.driver.supervise": "false", "spark.cores.max": str(DEFAULT_CORES_MAX), **job.properties()}
    files = ",".join(job.files)
    return {
        **conf,
        "spark.master": master_url,
        "spark.submit.deployMode": "cluster",
        # What spark-submit does with --py-files: the driver puts them on its path, executors fetch them.
        "spark.submit.pyFiles": ",".join(filter(None, [files, conf.get("spark.submit.pyFiles", "")])),
        "spark.files": ",".join(filter(None, [files, conf.get("spark.files", "")])),
    }
