"""Run drivers on a YARN with Kerberos: asked by SPNEGO, and submitted by spark-submit, which gets delegation tokens.

Spark's client takes the application's id itself, so the id that is written down before is a tag of ours
(`yarn_api`). A tag is sent once, by the process that has made it. Another process that finds one in the log
waits until its application is there, or can come no more: then the deployment has failed, and a new run begins.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_stream_provider.clusters import detach, kerberos, processes
from airflow_stream_provider.clusters import yarn_api as api
from airflow_stream_provider.clusters.cluster import SubmitUnclear
from airflow_stream_provider.clusters.connection import KerberosLogin, YarnSettings
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.kerberos import keytab_file
from airflow_stream_provider.clusters.yarn import YarnCluster
from airflow_stream_provider.clusters.yarn_api import (
    COME_SECONDS,
    SUBMIT_SECONDS,
    is_submission,
    made_at,
    may_come,
    new_submission,
)
from airflow_stream_provider.clusters.yarn_request import RUNNER, spark_conf, tags_of
from airflow_stream_provider.control.releases import LAUNCHER, LOG_SIZE
from airflow_stream_provider.lifecycle.errors import ClusterError

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

# All that spark-submit gets of Airflow's environment, which may hold passwords.
_PASSED_ON = re.compile(r"PATH|HOME|LANG|LC_[A-Z]+|TZ|JAVA_HOME|SPARK_\w+|HADOOP_\w+|YARN_\w+|KRB5_\w+")
_CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
# `spark_conf` has these for a request without an upload.
_WITHOUT_UPLOAD = ("spark.master", "spark.submit.deployMode", "spark.yarn.queue", "spark.yarn.preserve.staging.files")
# Nor can a log be cut that is not appended to, as spark-submit has it written.
_NOT_HERE = (*_WITHOUT_UPLOAD, LOG_SIZE)
_FILES = ("spark.submit.pyFiles", "spark.files")
_THROWN = re.compile(r'^Exception in thread "[^"]*" (?:[\w.$]+: )?(.+)$|^(?:Error|Exception): (.+)$', re.MULTILINE)


def check_here(settings: YarnSettings) -> None:
    """Check that this machine has spark-submit, Java, and Hadoop's configuration of the cluster.

    :raises ClusterError: one is missing.
    """
    _program(settings)
    processes.warn_of_two_versions()
    processes.check_java()
    folders = {name: os.environ[name] for name in _CONF_DIRS if os.environ.get(name)}
    if not any(Path(folder, "yarn-site.xml").is_file() for folder in folders.values()):
        said = ", ".join(f"{name} is {folder}" for name, folder in folders.items()) or "HADOOP_CONF_DIR is not set"
        raise ClusterError(
            f"spark-submit would not find YARN: {said}, and there is no yarn-site.xml in it.",
            next_step="Put Hadoop's configuration of the cluster on each machine that runs tasks, and name its folder "
            "in HADOOP_CONF_DIR. Nothing was submitted.",
        )


def run(job: Job, settings: YarnSettings, login: KerberosLogin, id: str, end: float) -> None:
    """Submit a job's driver with a tag; return once spark-submit has ended well.

    Should this process be killed, spark-submit is killed by the kernel.

    :param id: the tag, by which the driver is found.
    :param end: moment at which spark-submit is killed, by the monotonic clock.
    :raises ClusterError: it has failed; the driver may have been submitted all the same.
    """
    from airflow.sdk.exceptions import AirflowException

    program = _program(settings)
    with keytab_file(login) as file:
        hook = _hook(job, settings, login, id, file)
        try:
            # `executable`: in place of the program that the hook names, with its arguments.
            hook.submit(
                "spark-internal",
                executable=detach.__file__,
                env=_environment(program, end),
                pass_fds=[int(Path(file).name)],
            )
        except AirflowException as error:
            raise ClusterError(
                f"spark-submit has not submitted {job.app_name}: {_reason(str(error))}.",
                next_step="Read what it says in this task's log, correct that, and start a new run.",
                submission=id,
            ) from None
        finally:
            # An error that ends this call otherwise, such as a time-out of the task, leaves it running.
            started = getattr(hook, "_submit_sp", None)
            if started is not None and started.poll() is None:
                started.kill()
                started.wait()


def _hook(job: Job, settings: YarnSettings, login: KerberosLogin, id: str, keytab: str) -> SparkSubmitHook:
    """Return the Spark provider's hook. It reads no connection: what is needed of it has been read already.

    The connection's way would write the keytab to /tmp, and leave it there.
    """
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection

    class Hook(SparkSubmitHook):
        @classmethod
        def get_connection(cls, conn_id: str) -> Any:
            extra = {"queue": settings.queue, "deploy-mode": "cluster", "spark-binary": settings.spark_submit}
            return Connection(conn_id=conn_id, conn_type="spark", host="yarn", extra=json.dumps(extra))

    files = (*([job.launcher] if job.is_fetched else ()), *_listed(job, "spark.files"))
    return Hook(
        conf=conf_of(job, settings, id),
        keytab=keytab,
        principal=login.principal,
        name=job.app_name,
        java_class=RUNNER,
        files=",".join(files) or None,
        # A script would be uploaded, and run without the rest of its release: the release's folder is on all nodes, or
        # the launcher fetches it.
        application_args=[LAUNCHER if job.is_fetched else job.launcher, "", *job.arguments],
    )


def conf_of(job: Job, settings: YarnSettings, id: str) -> dict[str, str]:
    """Return the Spark conf for spark-submit.

    :raises SecretInConf: the job's conf holds a secret.
    """
    conf = {key: value for key, value in spark_conf(job, settings).items() if key not in (*_NOT_HERE, *_FILES)}
    driver = {
        **job.environment,
        "SPARK_HOME": settings.spark_home,
        "PYSPARK_PYTHON": job.environment.get("PYSPARK_PYTHON", settings.python),
        # As without Kerberos: the name by which the ResourceManager knows the node.
        "SPARK_LOCAL_HOSTNAME": "{{NM_HOST}}",
    }
    files = (*job.files, *_listed(job, "spark.submit.pyFiles"))
    return {
        **conf,
        # spark-submit takes --py-files beside a script only, and makes this of it.
        **({"spark.yarn.dist.pyFiles": ",".join(files)} if files else {}),
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in driver.items()},
        "spark.yarn.tags": ",".join((*tags_of(job), id)),
        "spark.yarn.submit.waitAppCompletion": "false",
    }


def _listed(job: Job, key: str) -> list[str]:
    return [each for each in job.conf.get(key, "").split(",") if each]


def _program(settings: YarnSettings) -> str:
    """Return the path of spark-submit: on the PATH, or of the pyspark beside Airflow."""
    found = shutil.which(settings.spark_submit)
    if found is not None:
        return found
    with suppress(ClusterError):
        beside = processes.home() / "bin" / settings.spark_submit
        if beside.is_file():
            return str(beside)
    raise ClusterError(
        f"With Kerberos drivers are submitted by {settings.spark_submit}, which is not on this machine's PATH.",
        next_step="Install Spark on each machine that runs tasks, such as by airflow-stream-provider[pyspark]. "
        "Nothing was submitted.",
    )


def _environment(program: str, end: float) -> Mapping[str, str]:
    mine = {key: value for key, value in os.environ.items() if _PASSED_ON.fullmatch(key)}
    # detach.py is run by the first Python of it.
    mine["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), mine.get("PATH", os.defpath)))
    own = mine.get("KRB5_CONFIG", "")
    if own and "java.security.krb5.conf" not in mine.get("SPARK_SUBMIT_OPTS", ""):
        # Java does not know the variable that MIT's library goes by.
        mine["SPARK_SUBMIT_OPTS"] = f"{mine.get('SPARK_SUBMIT_OPTS', '')} -Djava.security.krb5.conf={own}".strip()
    return {**mine, "STREAM_PROGRAM": program, "STREAM_PARENT": str(os.getpid()), "STREAM_UNTIL": str(end)}


def _reason(text: str) -> str:
    """Return the line of spark-submit's output that says why it has failed."""
    found: list[str] = [thrown or said for thrown, said in _THROWN.findall(text)]
    if found:
        return found[0].strip().rstrip(".")
    code = re.search(r"Error code is: (-?\d+)", text)
    return f"it ended with exit code {code.group(1)}" if code else "it ended with an error"


class KerberosYarnCluster(YarnCluster):
    """Drivers on a YARN with Kerberos.

    :param settings: what the connection says.
    :param login: as whom YARN is asked, and drivers run.
    """

    def __init__(self, settings: YarnSettings, login: KerberosLogin) -> None:
        super().__init__(settings)
        self._login = login

    @override
    def answer(self) -> str:
        kerberos.check(self._login)
        return super().answer()

    @override
    def check(self, job: Job) -> None:
        """Check this machine, the keytab, and then what is checked on every YARN.

        :raises ClusterError: the library for Kerberos, Spark or Hadoop's configuration is missing here, or no ticket
            is to be had.
        """
        kerberos.check(self._login)
        check_here(self._settings)
        super().check(job)

    @override
    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        """Submit the job's driver with a new tag by spark-submit; one that was tried before is only looked for."""
        api.find_active(self._settings)
        new, made = new_submission(time.time()), time.monotonic()
        id = note(new)
        if not is_submission(id):
            raise ClusterError(
                f"{id} was reserved while the cluster's connection had no principal, so it is not sent.",
                next_step="Start a new run. Nothing was submitted.",
                submission=id,
            )
        if id != new:
            if not self._has(id):
                raise SubmitUnclear(self._why_unclear(id), next_step="Nothing to do: it is looked for.", submission=id)
            return id
        # Whichever clock is ahead: this machine's may have been set since.
        since = max(time.time() - made_at(id), time.monotonic() - made)
        try:
            run(job, self._settings, self._login, id, time.monotonic() + SUBMIT_SECONDS - since)
        except ClusterError:
            if not self._has(id):
                raise
        self._wait_until_taken(id)
        return id

    def _has(self, id: str) -> bool:
        return api.driver(api.find_active(self._settings), id) is not None

    def _why_unclear(self, id: str) -> str:
        if not may_come(id, time.time()):
            return f"YARN has no application of {id}, and none can come any more."
        left = made_at(id) + COME_SECONDS - time.time()
        return f"YARN has no application of {id}; should it be on its way, it can come for {left:.0f} s."
